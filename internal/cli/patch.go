package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/gitpatch"
)

// maxPatchFile is the greatest size in bytes of a file in a patch. Both sides of a change are
// in memory at a time.
const maxPatchFile = 64 << 20

// patch prints the differences as a patch for git apply. If under is not empty, it prints
// only the changes of this file or folder.
func (d *comparison) patch(ctx context.Context, under string) error {
	changes, err := d.patchChanges(ctx, under)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := d.patchOf(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// patchChanges returns the changes that a patch contains. It checks them all before the
// patch begins, because git apply accepts a part of a patch as a whole one.
func (d *comparison) patchChanges(ctx context.Context, under string) ([]stint.FileChange, error) {
	var changes []stint.FileChange
	for c, err := range d.trees.Diff(ctx, d.id, d.from, d.to) {
		if err != nil {
			return nil, err
		}
		if under != "" && c.Path != under && !strings.HasPrefix(c.Path, under+"/") || isSameForGit(c) {
			continue
		}
		if isGitFolder(c.Path) || c.From != nil && isGitFolder(c.From.Path) {
			d.a.note("%s is not in the patch, because git does not change its own folder.", plain(c.Path))
			continue
		}
		for _, e := range []*stint.FileEntry{c.From, c.To} {
			if e != nil && e.Size > maxPatchFile {
				return nil, fmt.Errorf("%s is too large for a patch: it has %s, more than %s. Pull the version instead", plain(e.Path), bytesText(e.Size), bytesText(maxPatchFile))
			}
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// isSameForGit reports whether only permissions or times change that git does not record.
func isSameForGit(c stint.FileChange) bool {
	return c.From != nil && c.To != nil && c.From.SHA256 == c.To.SHA256 && c.From.Path == c.To.Path && c.From.Target == c.To.Target && gitMode(c.From) == gitMode(c.To)
}

// isGitFolder reports whether a path has a folder .git, which git apply refuses.
func isGitFolder(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

func (d *comparison) patchOf(ctx context.Context, c stint.FileChange) error {
	old, err := d.patchFile(ctx, d.from, c.From)
	if err != nil {
		return err
	}
	new, err := d.patchFile(ctx, d.to, c.To)
	if err != nil {
		return err
	}
	if old == nil && new == nil {
		return nil
	}
	var out bytes.Buffer
	if err := gitpatch.Write(&out, old, new); err != nil {
		return err
	}
	if d.a.IsTerminal(stdout) {
		err = d.a.showLines(&out)
	} else {
		_, err = out.WriteTo(d.a.Stdout)
	}
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	return nil
}

// patchFile returns a file of a version, or nil if it does not exist or is a folder.
func (d *comparison) patchFile(ctx context.Context, version string, e *stint.FileEntry) (*gitpatch.File, error) {
	if e == nil || e.Kind == "dir" {
		return nil, nil
	}
	f := &gitpatch.File{Path: e.Path, Mode: gitMode(e), Content: []byte(e.Target)}
	if e.Kind == "symlink" {
		return f, nil
	}
	in, err := d.trees.ReadFile(ctx, d.id, version, e.Path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if f.Content, err = io.ReadAll(in); err != nil {
		return nil, fmt.Errorf("read %s: %w", plain(e.Path), err)
	}
	return f, nil
}

// gitMode returns the mode that git records for a file. Of the permissions, git records
// whether the owner can execute the file.
func gitMode(e *stint.FileEntry) string {
	switch {
	case e.Kind == "dir":
		return ""
	case e.Kind == "symlink":
		return gitpatch.ModeLink
	case len(e.Mode) == 4 && (e.Mode[1]-'0')&1 != 0:
		return gitpatch.ModeExecutable
	}
	return gitpatch.ModeFile
}
