package diff

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limiter"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/lru"
)

// Diff returns at most limit differences between two trees, in path order, after
// the path after ("" = from the start), and reports whether more exist. Entries
// differ if one tree lacks them or if their kind, mode, content, or target
// differs; a changed modification time alone is not a difference. The digest ""
// stands for the empty tree.
//
// A file that moved to another path with the same content is listed once, as
// renamed, under its new path. If more than MaxRenames files were removed, or
// more were added, renamed files are listed as removed and added. So are renamed
// empty files.
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

// compare walks two trees in parallel, beginning after the path after. For each path
// at which the trees differ, it calls take with both entries, of which a missing
// entry is nil, until take returns false. It skips a page that both trees
// have, if the walk reaches the start of the page in both trees at the same time.
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

// cursor walks the entries of a tree after a path. It knows the current page, so
// that equal pages can be skipped.
type cursor struct {
	ctx     context.Context // of the call that created the cursor
	after   string
	reader  manifest.PageReader
	pages   []format.Page
	next    int             // the page to be read next
	entries []*format.Entry // remaining entries of the page before next
	whole   bool            // no entry of that page was taken or skipped
	err     error
}

func (d *Differ) cursor(ctx context.Context, org, digest, after string) (*cursor, error) {
	m, err := d.manifests.OpenOrEmpty(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	return &cursor{ctx: ctx, after: after, reader: manifest.PageReader{M: m}, pages: m.Root.Pages, next: m.PageOf(after)}, nil
}

// peek returns the current entry, nil at the end of the tree or after an error.
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

// page returns the index of the current page if the cursor is at the first entry of
// the page, otherwise -1.
func (c *cursor) page() int {
	switch {
	case len(c.entries) == 0 && c.next < len(c.pages):
		return c.next
	case len(c.entries) > 0 && c.whole:
		return c.next - 1
	}
	return -1
}

// skipEqual moves two cursors past equal pages while both are at the start of a page.
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

// step takes the entry with the smaller path from its cursor and returns nil for the
// other cursor. If the paths are equal, step takes both entries. If a cursor has an
// error, the result is undefined.
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

// Differ compares stored trees. It is safe for concurrent use.
type Differ struct {
	manifests *manifest.Store
	pairs     *lru.Cache[diffKey, *renames]
	Comparing *limiter.Limiter // limits text comparisons, which may take seconds and much memory
}

// New returns a Differ for the trees in m.
func New(m *manifest.Store) *Differ {
	return &Differ{manifests: m, pairs: lru.New[diffKey, *renames](8), Comparing: limiter.New(2)}
}
