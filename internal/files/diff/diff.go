package diff

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limiter"
	"github.com/stint-dev/stint/internal/files/lru"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// Changes lists at most limit differences between two trees, in path order,
// that follow the path after ("" = from the start), and tells whether more
// exist. Entries differ that one tree lacks, or whose kind, mode, content or
// target are others; a changed modification time alone is no difference. "" is
// the empty tree.
//
// A file that one tree lacks and that the other has under another path, with
// the same content, is listed once, as renamed, under its new path. In trees
// that differ in more files than pairs are sought among, such files are listed
// as removed and as added.
func (d *Differ) Diff(ctx context.Context, org, from, to, after string, limit int) (page []stint.FileChange, more bool, err error) {
	r, err := d.renames(ctx, org, from, to)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileChange{}
	err = d.compare(ctx, org, from, to, after, func(old, new *format.Entry) bool {
		c := r.change(old, new)
		if c == nil {
			return true
		}
		if len(page) == limit {
			more = true
			return false
		}
		page = append(page, *c)
		return true
	})
	if err != nil {
		return nil, false, err
	}
	return page, more, nil
}

// compare walks two trees side by side behind a path and gives take every
// pair of entries that differ, nil for one that is missing, until take
// returns false. Pages that both trees have are not read.
func (d *Differ) compare(ctx context.Context, org, from, to, after string, take func(old, new *format.Entry) bool) error {
	old, err := d.cursor(ctx, org, from, after)
	if err != nil {
		return err
	}
	new, err := d.cursor(ctx, org, to, after)
	if err != nil {
		return err
	}
	for {
		skipEqual(old, new)
		x, y := step(old, new)
		if err := errors.Join(old.err, new.err); err != nil {
			return err
		}
		if x == nil && y == nil || (x == nil || y == nil || !x.Equal(y)) && !take(x, y) {
			return nil
		}
	}
}

// cursor walks the entries of a tree that follow a path. It knows at which
// page it stands, so that pages can be left out.
type cursor struct {
	ctx     context.Context // of the call that made it
	after   string
	reader  manifest.PageReader
	pages   []format.Page
	next    int             // the page to be read next
	entries []*format.Entry // of the page before, those that are left
	whole   bool            // none of that page's entries was taken or left out
	err     error
}

func (d *Differ) cursor(ctx context.Context, org, digest, after string) (*cursor, error) {
	m, err := d.manifests.OpenOrEmpty(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	return &cursor{ctx: ctx, after: after, reader: manifest.PageReader{M: m}, pages: m.Root.Pages, next: m.PageOf(after)}, nil
}

// peek gives the entry that the cursor stands on, nil at the tree's end or
// after a fault.
func (c *cursor) peek() *format.Entry {
	for len(c.entries) == 0 && c.err == nil && c.next < len(c.pages) {
		c.entries, c.err = c.reader.Page(c.ctx, c.next)
		c.next++
		n := len(c.entries)
		for len(c.entries) > 0 && format.ComparePaths(c.entries[0].Path, c.after) <= 0 {
			c.entries = c.entries[1:]
		}
		c.whole = n == len(c.entries)
	}
	if len(c.entries) == 0 || c.err != nil {
		return nil
	}
	return c.entries[0]
}

func (c *cursor) advance() { c.entries, c.whole = c.entries[1:], false }

// page gives the number of the page at whose first entry the cursor stands,
// or -1.
func (c *cursor) page() int {
	switch {
	case len(c.entries) == 0 && c.next < len(c.pages):
		return c.next
	case len(c.entries) > 0 && c.whole:
		return c.next - 1
	}
	return -1
}

// skipEqual leads two cursors behind pages that both trees have.
func skipEqual(a, b *cursor) {
	for {
		i, j := a.page(), b.page()
		if i < 0 || j < 0 || a.pages[i].Logical != b.pages[j].Logical {
			return
		}
		a.next, a.entries = i+1, nil
		b.next, b.entries = j+1, nil
	}
}

// step takes what comes first from two cursors: from both, if they stand on
// one path. After a fault of either what it gives says nothing.
func step(old, new *cursor) (x, y *format.Entry) {
	x, y = old.peek(), new.peek()
	if x != nil && y != nil {
		switch order := format.ComparePaths(x.Path, y.Path); {
		case order < 0:
			y = nil
		case order > 0:
			x = nil
		}
	}
	if x != nil {
		old.advance()
	}
	if y != nil {
		new.advance()
	}
	return x, y
}

// differ compares stored trees. It is safe for concurrent use.
type Differ struct {
	manifests *manifest.Store
	pairs     *lru.Cache[diffKey, *renames]
	Comparing *limiter.Limiter // of two texts each: a comparison may take seconds and much memory
}

func New(m *manifest.Store) *Differ {
	return &Differ{manifests: m, pairs: lru.New[diffKey, *renames](8), Comparing: limiter.New(2)}
}
