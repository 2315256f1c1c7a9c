//go:build linux && (amd64 || arm64)

package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// expandedDirs are folders of an image. A sandbox shows their entries one by one,
// because it provides some of these entries itself.
var expandedDirs = []string{"/", "/etc", "/etc/ssl", "/home", "/var"}

// ownEntries are the paths that the sandbox provides itself, besides the generated
// files of /etc, and /lost+found. The image's entries at these paths are not shown.
var ownEntries = []string{
	"/dev", "/proc", "/sys", "/tmp", "/run", "/var/tmp", "/lost+found", "/etc/mtab", layout.HomeDir, layout.WorkspaceDir,
}

// maxEntries is the maximum total number of entries in the expanded folders. The
// number is limited because each entry becomes a mount.
const maxEntries = 4096

var errTooManyEntries = &sandbox.Error{Message: fmt.Sprintf("The image has more than %d entries in its uppermost folders.", maxEntries)}

// ImageEntries returns the entries of an unpacked image that a sandbox shows,
// with Source as a path below dir, and the generated files of /etc. The image
// is untrusted, but its folder belongs to the server: it does not change
// concurrently. Symbolic links in it are entries themselves and are not followed.
func ImageEntries(dir string) ([]layout.Entry, []layout.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, &sandbox.Error{Message: "The image's folder is missing on the host.", Err: err}
	}
	defer root.Close()
	etc := etcWithShell(imageShell(root))
	skip := slices.Clone(ownEntries)
	for _, f := range etc {
		skip = append(skip, "/etc/"+f.Name)
	}
	var list []layout.Entry
	for _, dir := range expandedDirs {
		if list, err = appendDir(list, root, dir, skip); errors.Is(err, errTooManyEntries) {
			return nil, nil, err
		} else if err != nil {
			return nil, nil, fmt.Errorf("reading the image: %w", err)
		}
		if len(list) > maxEntries {
			return nil, nil, errTooManyEntries
		}
	}
	return list, etc, nil
}

// imageShell returns the path of the agent's login shell in an image.
func imageShell(root *os.Root) string {
	if _, err := root.Stat("bin/bash"); err == nil {
		return "/bin/bash"
	}
	if _, err := root.Lstat("usr/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// appendDir appends the entries of the folder dir, without the paths in skip and in
// expandedDirs, special files, and names that begin with ".stint". If dir is missing or is
// reached through a symbolic link, it appends nothing.
func appendDir(list []layout.Entry, root *os.Root, dir string, skip []string) ([]layout.Entry, error) {
	name := strings.TrimPrefix(dir, "/")
	if name == "" {
		name = "."
	}
	if !isRealDir(root, name) {
		return list, nil
	}
	entries, err := readDir(root, name)
	if err != nil {
		return list, err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if slices.Contains(skip, at) || slices.Contains(expandedDirs, at) || strings.HasPrefix(e.Name(), ".stint") {
			continue
		}
		entry := layout.Entry{Path: at, Source: at, File: e.Type().IsRegular()}
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			if entry.Link, err = root.Readlink(strings.TrimPrefix(at, "/")); err != nil {
				return list, err
			}
		case !e.IsDir() && !entry.File:
			continue // devices and other special files
		}
		list = append(list, entry)
	}
	return list, nil
}

// readDir returns the entries of a folder, sorted by name. It returns
// errTooManyEntries if there are more than maxEntries.
func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	d, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var all []fs.DirEntry
	for len(all) <= maxEntries {
		some, err := d.ReadDir(256)
		all = append(all, some...)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errTooManyEntries
}

// isRealDir reports whether name is a folder and its path contains no symbolic link.
func isRealDir(root *os.Root, name string) bool {
	for at := name; ; at = path.Dir(at) {
		if st, err := root.Lstat(at); err != nil || !st.IsDir() {
			return false
		}
		if at == "." {
			return true
		}
	}
}

// CheckTarget returns an error if nothing can be mounted at target because of the
// entries of system: they are read-only, so that a missing folder cannot be created,
// and links may refer to any path. image is the folder of the image that contains the
// entries, or empty for the host's system.
func CheckTarget(target string, system []layout.Entry, image string) error {
	whose := "the host's system"
	if image != "" {
		whose = "the image"
	}
	for _, e := range slices.Concat(system, []layout.Entry{{Path: "/var/tmp", Link: "/tmp"}}) {
		rel, below := strings.CutPrefix(target, e.Path+"/")
		switch {
		case !below && target != e.Path:
			continue
		case e.Link != "":
			return &sandbox.Error{Message: fmt.Sprintf("The path %s is a link in the sandbox; no folder can be mounted at %s.", e.Path, target)}
		case e.File:
			return &sandbox.Error{Message: fmt.Sprintf("The path %s is a file of %s; no folder can be mounted at %s.", e.Path, whose, target)}
		case !below:
			return nil
		}
		root, err := os.OpenRoot(path.Join("/", image, e.Path))
		if err != nil {
			return fmt.Errorf("reading %s: %w", target, err)
		}
		there := isRealDir(root, rel)
		if err := root.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			return err
		}
		if !there {
			return &sandbox.Error{Message: fmt.Sprintf("The folder %s does not exist in %s, whose %s is read-only; mount it elsewhere, or create the folder in the image.", target, whose, e.Path)}
		}
		return nil
	}
	return nil
}
