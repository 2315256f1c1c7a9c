package scan

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stint-dev/stint/internal/files/commit"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// whiteout is the kind of entries that remove the entry of the base with the same
// path and everything below it.
const whiteout format.Kind = 0xfe

// CommitOverlay stores the tree that an overlay shows. Its lower layers hold the
// tree with the digest base ("" = the empty tree), and upper is the folder of its
// upper layer. The result is the same as that of CommitDir with the mounted overlay,
// but CommitOverlay reads only upper, and the cost depends on the size of the change.
//
// Whiteouts, which remove entries, are character devices 0:0 and empty files with an
// extended attribute. An opaque folder hides the content of the folder in the base.
// Files with partial content and renamed folders, which overlays create with metacopy
// and redirect_dir, are refused. The content of upper is untrusted, as in CommitDir.
func (b *Scanner) CommitOverlay(ctx context.Context, org, base, upper string, o DirOptions) (manifest.Ref, error) {
	return commit.RetryOnce(func() (manifest.Ref, error) { return b.commitOverlay(ctx, org, base, upper, o) })
}

func (b *Scanner) commitOverlay(ctx context.Context, org, base, upper string, o DirOptions) (ref manifest.Ref, err error) {
	root, err := os.OpenRoot(upper)
	if err != nil {
		return manifest.Ref{}, fmt.Errorf("opening the folder to store: %w", err)
	}
	c, err := b.Commits.Begin(ctx, org, false)
	if err != nil {
		return manifest.Ref{}, errors.Join(err, root.Close())
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m, err := b.Commits.Manifests.OpenOrEmpty(ctx, org, base)
	if err != nil {
		return manifest.Ref{}, errors.Join(fmt.Errorf("reading the base version: %w", err), root.Close())
	}
	if err := c.PrepareMarkedBase(ctx, m); err != nil {
		return manifest.Ref{}, errors.Join(err, root.Close())
	}
	c.Manifest.Base = m
	g := &overlayMerge{ctx: ctx, base: m, pages: manifest.PageReader{M: m}, to: c.Manifest, commit: c}
	in := commit.NewChunker(ctx, c.Dedup, c.Writer, g.change)
	s := newFolderScan(b, in, o)
	s.base = &manifest.Finder{Pages: manifest.PageReader{M: m}}
	err = in.End(errors.Join(s.folder(root, "", 1), root.Close()))
	if err == nil {
		err = g.rest()
	}
	if err == nil {
		err = c.Manifest.EndPage()
	}
	if err == nil {
		err = s.checkTotals(&c.Manifest.Root)
	}
	if err != nil {
		return manifest.Ref{}, errors.Join(err, c.Writer.Withdraw(ctx))
	}
	return c.Finish(ctx)
}

// checkTotals checks a merged tree against the limits of a whole tree, because the
// scan of the upper layer has checked only the changes.
func (s *folderScan) checkTotals(x *format.Root) error {
	var entries, files, size int64
	for i := range x.Pages {
		p := &x.Pages[i]
		entries, files, size = entries+p.Entries, files+p.Files, size+p.Size
	}
	switch {
	case entries > s.limits.Entries:
		return s.tooManyError()
	case files > s.options.MaxFiles:
		return limits.TooLarge("The tree has more than %d files.", s.options.MaxFiles)
	case size > s.limits.TotalBytes:
		return limits.TooLarge("The files have more than %d bytes together.", s.limits.TotalBytes)
	}
	return nil
}

// overlayMerge merges a base and changes in path order. It reuses unchanged pages
// without reading them. It is not safe for concurrent use.
type overlayMerge struct {
	ctx     context.Context
	base    *manifest.Manifest
	pages   manifest.PageReader
	to      *manifest.Writer
	commit  *commit.Commit
	page    int             // index of the current page of the base
	read    bool            // the current page was read
	entries []*format.Entry // remaining entries of the current page, if it was read
}

// change adds an entry in place of an entry of the base, or applies a whiteout.
func (g *overlayMerge) change(e *format.Entry) error {
	if err := g.copyBefore(e.Path); err != nil {
		return err
	}
	// The content of a folder stays unless a whiteout precedes the folder.
	if err := g.skip(e.Path, e.Kind != format.Folder); err != nil {
		return err
	}
	if e.Kind == whiteout {
		return nil
	}
	return g.to.Add(e)
}

// copyBefore copies the entries of the base before path.
func (g *overlayMerge) copyBefore(path string) error {
	before := func(p string) bool { return format.ComparePaths(p, path) < 0 }
	// All paths of a page are before the first path of the next page. The last page
	// must be read: its last path is unknown, and an entry may have to be added to it.
	whole := func() bool {
		next := g.page + 1
		return next < len(g.base.Root.Pages) && format.ComparePaths(g.base.Root.Pages[next].First, path) <= 0
	}
	return g.copy(before, whole)
}

// rest copies the remaining entries of the base.
func (g *overlayMerge) rest() error {
	return g.copy(func(string) bool { return true }, func() bool { return true })
}

// copy copies entries of the base as long as one returns true for their paths. It
// reuses a whole page without reading it if whole returns true, the page can be
// reused, and the writer is at the start of a page.
func (g *overlayMerge) copy(one func(path string) bool, whole func() bool) error {
	for {
		first, ok := g.next()
		if !ok || !one(first) {
			return nil
		}
		if !g.read && g.to.AtPageStart() && g.to.CanReuse(g.page) && whole() {
			if err := g.to.ReusePage(g.page); err != nil {
				return err
			}
			g.page++
			continue
		}
		e, err := g.pull()
		if err != nil {
			return err
		}
		if err := g.commit.CopyMarkedChunks(g.ctx, e); err != nil {
			return err
		}
		if err := g.to.Add(e); err != nil {
			return err
		}
	}
}

// skip drops the base's entry at path. If below is set, it also drops all entries
// below path.
func (g *overlayMerge) skip(path string, below bool) error {
	for {
		first, ok := g.next()
		if !ok || first != path && (!below || !format.IsUnder(first, path)) {
			return nil
		}
		if next := g.page + 1; !g.read && below && next < len(g.base.Root.Pages) && format.IsUnder(g.base.Root.Pages[next].First, path) {
			g.page++
			continue
		}
		if _, err := g.pull(); err != nil {
			return err
		}
	}
}

// next returns the path of the base's next entry without reading a page.
func (g *overlayMerge) next() (path string, ok bool) {
	if g.read && len(g.entries) == 0 {
		g.page++
		g.read = false
	}
	switch {
	case g.page == len(g.base.Root.Pages):
		return "", false
	case g.read:
		return g.entries[0].Path, true
	}
	return g.base.Root.Pages[g.page].First, true
}

// pull removes and returns the base's next entry, which must exist.
func (g *overlayMerge) pull() (*format.Entry, error) {
	if !g.read {
		var err error
		if g.entries, err = g.pages.Page(g.ctx, g.page); err != nil {
			return nil, err
		}
		g.read = true
	}
	e := g.entries[0]
	g.entries = g.entries[1:]
	return e, nil
}

// hides reports whether an open file or folder of an upper layer is a whiteout or
// an opaque folder. If a part of the file or folder is in another layer, hides returns
// a *stint.Error.
func hides(path string, f *os.File) (bool, error) {
	marks, err := overlayMarks(f)
	if err != nil {
		return false, err
	}
	if marks.partial {
		return false, limits.Invalid("'%s' was written by an overlay with metacopy or redirect_dir, which cannot be stored from its upper layer.", limits.Printable(path))
	}
	return marks.hides, nil
}

// overlayFlags are the overlay attributes of a file or folder.
type overlayFlags struct {
	hides   bool // a whiteout or opaque
	partial bool // a part of it is in another layer
}
