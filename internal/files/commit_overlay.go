package files

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// whiteout is the kind of entries that stand for nothing: what the base holds
// at their path and below it is gone.
const whiteout kind = 0xfe

// CommitOverlay stores the tree that an overlay shows whose lower layers hold the
// tree with the digest base ("" = the empty tree) and whose upper layer is the
// folder upper. The result is that of CommitDir of the overlay, but only upper
// is read, and what follows is the cost of the change.
//
// Whiteouts are character devices 0:0, and empty files marked as such; a
// folder marked opaque hides what the base holds in it. Files that hold only a
// part of their content, and folders that were renamed, as overlays make them
// with metacopy and redirect_dir, are refused. Else upper may have been filled
// by anybody: see CommitDir.
func (b *scanner) CommitOverlay(ctx context.Context, org, base, upper string, o DirOptions) (Ref, error) {
	return retryOnce(func() (Ref, error) { return b.fromUpper(ctx, org, base, upper, o) })
}

func (b *scanner) fromUpper(ctx context.Context, org, base, upper string, o DirOptions) (ref Ref, err error) {
	root, err := os.OpenRoot(upper)
	if err != nil {
		return Ref{}, fmt.Errorf("opening the folder to store: %w", err)
	}
	c, err := b.commits.begin(ctx, org, false)
	if err != nil {
		return Ref{}, errors.Join(err, root.Close())
	}
	defer func() { err = errors.Join(err, c.close()) }()
	m, err := b.commits.manifests.openOrEmpty(ctx, org, base)
	if err != nil {
		return Ref{}, errors.Join(fmt.Errorf("reading the base version: %w", err), root.Close())
	}
	if err := c.prepareMarkedBase(ctx, m); err != nil {
		return Ref{}, errors.Join(err, root.Close())
	}
	c.manifest.base = m
	g := &merger{ctx: ctx, base: m, pages: pageReader{m: m}, to: c.manifest, commit: c}
	in := newChunker(ctx, c.dedup, c.writer, g.change)
	s := newScan(b, in, o)
	s.base = &finder{pages: pageReader{m: m}}
	err = in.end(errors.Join(s.folder(root, "", 1), root.Close()))
	if err == nil {
		err = g.rest()
	}
	if err == nil {
		err = c.manifest.endPage()
	}
	if err == nil {
		err = s.checkWhole(&c.manifest.root)
	}
	if err != nil {
		return Ref{}, errors.Join(err, c.writer.withdraw(ctx))
	}
	return c.finish(ctx)
}

// suspect prepares for a base that is condemned: see inherit. What of it is
// left is copied.
func (c *commit) prepareMarkedBase(ctx context.Context, base *manifest) error {
	if !c.dedup.marked.keys[base.key] {
		c.parent = base.digest
		return nil
	}
	gone, err := c.packs.missing(ctx, c.org, base.root.packs)
	for _, id := range gone {
		c.dedup.marked.doubtful[packKey(c.org, id)] = true
	}
	return err
}

// checkWhole holds a tree that was merged against the limits that scanning its
// changes could not.
func (s *scan) checkWhole(x *root) error {
	var entries, files, size int64
	for i := range x.pages {
		p := &x.pages[i]
		entries, files, size = entries+p.entries, files+p.files, size+p.size
	}
	switch {
	case entries > s.limits.Entries:
		return s.tooMany()
	case files > s.options.MaxFiles:
		return tooLarge("The tree has more than %d files.", s.options.MaxFiles)
	case size > s.limits.TotalBytes:
		return tooLarge("The files have more than %d bytes together.", s.limits.TotalBytes)
	}
	return nil
}

// merger makes a tree of a base and changes that come in path order. Pages
// that no change touches are taken over unread. It serves one goroutine.
type merger struct {
	ctx     context.Context
	base    *manifest
	pages   pageReader
	to      *manifestWriter
	commit  *commit
	page    int      // of the base, where the merger stands
	read    bool     // whether it was read
	entries []*entry // what is left of it then
}

// change takes an entry in, or a whiteout.
func (g *merger) change(e *entry) error {
	if err := g.copyBefore(e.path); err != nil {
		return err
	}
	// What was below a folder stays, unless a whiteout came before it.
	if err := g.skip(e.path, e.kind != folder); err != nil {
		return err
	}
	if e.kind == whiteout {
		return nil
	}
	return g.to.add(e)
}

// copyBefore takes over what the base holds before path.
func (g *merger) copyBefore(path string) error {
	before := func(p string) bool { return comparePaths(p, path) < 0 }
	// A page ends before the next begins. Where the last one ends is not known
	// unread, and as something follows it, it may not end there any more.
	whole := func() bool {
		next := g.page + 1
		return next < len(g.base.root.pages) && comparePaths(g.base.root.pages[next].first, path) <= 0
	}
	return g.copy(before, whole)
}

// rest takes over what is left of the base.
func (g *merger) rest() error {
	return g.copy(func(string) bool { return true }, func() bool { return true })
}

// copy takes over entries for which one holds, and unread pages for which
// whole does, as far as the writer stands between pages.
func (g *merger) copy(one func(path string) bool, whole func() bool) error {
	for {
		first, ok := g.next()
		if !ok || !one(first) {
			return nil
		}
		if !g.read && g.to.atPage() && g.to.lasting(g.page) && whole() {
			if err := g.to.takeOver(g.page); err != nil {
				return err
			}
			g.page++
			continue
		}
		e, err := g.pull()
		if err != nil {
			return err
		}
		if err := g.commit.copyEndangeredChunks(g.ctx, e); err != nil {
			return err
		}
		if err := g.to.add(e); err != nil {
			return err
		}
	}
}

// skip leaves out the base's entry at path, and what is below it if so wanted.
func (g *merger) skip(path string, below bool) error {
	for {
		first, ok := g.next()
		if !ok || first != path && (!below || !isUnder(first, path)) {
			return nil
		}
		if next := g.page + 1; !g.read && below && next < len(g.base.root.pages) && isUnder(g.base.root.pages[next].first, path) {
			g.page++
			continue
		}
		if _, err := g.pull(); err != nil {
			return err
		}
	}
}

// next gives the path of the base's next entry, without reading a page for it.
func (g *merger) next() (path string, ok bool) {
	if g.read && len(g.entries) == 0 {
		g.page++
		g.read = false
	}
	switch {
	case g.page == len(g.base.root.pages):
		return "", false
	case g.read:
		return g.entries[0].path, true
	}
	return g.base.root.pages[g.page].first, true
}

// pull takes the base's next entry, which exists.
func (g *merger) pull() (*entry, error) {
	if !g.read {
		var err error
		if g.entries, err = g.pages.page(g.ctx, g.page); err != nil {
			return nil, err
		}
		g.read = true
	}
	e := g.entries[0]
	g.entries = g.entries[1:]
	return e, nil
}

// hides tells whether a file or folder of an upper layer, which is open, is a
// whiteout, or an opaque folder. One that is not what it shows is refused.
func hides(path string, f *os.File) (bool, error) {
	marks, err := overlayMarks(f)
	if err != nil {
		return false, err
	}
	if marks.partial {
		return false, invalid("'%s' was written by an overlay with metacopy or redirect_dir, which cannot be stored from its upper layer.", printable(path))
	}
	return marks.hides, nil
}

// marks are the attributes of a file or folder that an overlay understands.
type overlayFlags struct {
	hides   bool // it is a whiteout, or opaque
	partial bool // more of it lies elsewhere
}
