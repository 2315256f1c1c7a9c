package content

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
)

// Diff lists what differs between two trees, in path order: entries that one
// lacks and entries whose kind, mode, content or target differ. A changed
// modification time alone is no difference. "" is the empty tree. Pages that
// both have are not read.
func (l *Library) Diff(ctx context.Context, org, from, to string) ([]stint.FileChange, error) {
	old, err := l.cursor(ctx, org, from)
	if err != nil {
		return nil, err
	}
	new, err := l.cursor(ctx, org, to)
	if err != nil {
		return nil, err
	}
	changes := []stint.FileChange{}
	for {
		skipShared(old, new)
		old.settle()
		new.settle()
		if err := errors.Join(old.err, new.err); err != nil {
			return nil, err
		}
		if old.entry == nil && new.entry == nil {
			return changes, nil
		}
		if c := change(old, new); c != nil {
			changes = append(changes, *c)
		}
	}
}

// cursor stands on an entry of a tree, or, with none, before a page or at the
// end.
type cursor struct {
	ctx   context.Context // of the call that made it
	pages pageReader
	page  int      // the next one
	rest  []*entry // of the page before it
	entry *entry
	err   error
}

func (l *Library) cursor(ctx context.Context, org, digest string) (*cursor, error) {
	m, err := l.manifestOrEmpty(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	return &cursor{ctx: ctx, pages: pageReader{m: m}}, nil
}

// manifestOrEmpty opens a tree; that of "" is empty.
func (l *Library) manifestOrEmpty(ctx context.Context, org, digest string) (*manifest, error) {
	if digest == "" {
		return &manifest{lib: l, org: org, root: &root{}}, checkOrg(org)
	}
	return l.manifest(ctx, org, digest)
}

// skipShared passes over the pages that both trees have, as far as both
// cursors stand before one.
func skipShared(a, b *cursor) {
	for a.entry == nil && b.entry == nil {
		p, q := a.next(), b.next()
		if p == nil || q == nil || p.logical != q.logical {
			return
		}
		a.page++
		b.page++
	}
}

// next gives the page that the cursor stands before, or nil.
func (c *cursor) next() *page {
	if pages := c.pages.m.root.pages; c.page < len(pages) {
		return &pages[c.page]
	}
	return nil
}

// settle goes to the first entry of the next page where the cursor stands on
// none.
func (c *cursor) settle() {
	if c.entry != nil || c.next() == nil {
		return
	}
	if c.rest, c.err = c.pages.page(c.ctx, c.page); c.err == nil {
		c.page++
		c.advance()
	}
}

// advance leaves the entry.
func (c *cursor) advance() {
	c.entry = nil
	if len(c.rest) > 0 {
		c.entry, c.rest = c.rest[0], c.rest[1:]
	}
}

// change compares what two cursors stand on, at least one of them on an
// entry, and moves on whichever comes first.
func change(old, new *cursor) *stint.FileChange {
	order := 0
	switch {
	case old.entry == nil:
		order = 1
	case new.entry == nil:
		order = -1
	default:
		order = comparePaths(old.entry.path, new.entry.path)
	}
	var c *stint.FileChange
	if order <= 0 {
		from := old.entry.public()
		c = &stint.FileChange{Path: from.Path, Change: "removed", From: &from}
	}
	if order >= 0 {
		to := new.entry.public()
		if c == nil {
			c = &stint.FileChange{Path: to.Path, Change: "added"}
		} else {
			c.Change = "changed"
		}
		c.To = &to
	}
	if order == 0 && old.entry.same(new.entry) {
		c = nil
	}
	if order <= 0 {
		old.advance()
	}
	if order >= 0 {
		new.advance()
	}
	return c
}
