package run

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/framework"
)

// homeFiles selects the files of the home folder that belong to the
// conversation. Each pattern is split into its path elements.
type homeFiles struct{ keep, drop [][]string }

func newHomeFiles(s framework.State) homeFiles {
	split := func(patterns []string) (out [][]string) {
		for _, p := range patterns {
			out = append(out, strings.Split(path.Clean(p), "/"))
		}
		return out
	}
	return homeFiles{split(s.Keep), split(s.Drop)}
}

// all reports whether every file is selected.
func (h homeFiles) all() bool { return len(h.keep) == 0 && len(h.drop) == 0 }

// contains reports whether a path is selected.
func (h homeFiles) contains(name string) bool {
	within := func(pattern []string) bool { return hasPrefix(strings.Split(name, "/"), pattern) }
	return (len(h.keep) == 0 || slices.ContainsFunc(h.keep, within)) && !slices.ContainsFunc(h.drop, within)
}

// isParent reports whether a folder is a parent of paths that may be selected.
func (h homeFiles) isParent(name string) bool {
	elements := strings.Split(name, "/")
	within := func(pattern []string) bool { return hasPrefix(elements, pattern) }
	return !slices.ContainsFunc(h.drop, within) && slices.ContainsFunc(h.keep, func(pattern []string) bool {
		return len(pattern) > len(elements) && hasPrefix(elements, pattern[:len(elements)])
	})
}

// hasPrefix reports whether the first elements of a path match all elements of the
// pattern.
func hasPrefix(elements, pattern []string) bool {
	if len(pattern) > len(elements) {
		return false
	}
	for i, p := range pattern {
		if ok, err := path.Match(p, elements[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// dirOptions returns the options to commit the selected files and the record of the
// conversation.
func (h homeFiles) dirOptions() files.DirOptions {
	o := files.DirOptions{Confidential: true}
	if h.all() {
		return o
	}
	o.Verify = true
	o.Ignore = func(name string, isDir bool) bool {
		return name != conversationFile && !h.contains(name) && (!isDir || !h.isParent(name))
	}
	o.KeepParents = func(name string) bool { return !h.contains(name) }
	return o
}

// walk visits the selected files and folders, a folder before its files. It leaves out
// the record of the conversation, and files that are removed meanwhile.
func (h homeFiles) walk(root *os.Root, visit func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case name == "." || name == conversationFile:
			return nil
		case !h.contains(name) && d.IsDir() && !h.isParent(name):
			return fs.SkipDir
		case !h.contains(name):
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return visit(name, info)
	})
}
