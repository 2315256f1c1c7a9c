package content

import (
	"context"
	"errors"
	"iter"

	"github.com/stint-dev/stint"
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
func (l *Library) Changes(ctx context.Context, org, from, to, after string, limit int) (page []stint.FileChange, more bool, err error) {
	r, err := l.renames(ctx, org, from, to)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileChange{}
	err = l.compare(ctx, org, from, to, after, func(old, new *entry) bool {
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
// returns false.
func (l *Library) compare(ctx context.Context, org, from, to, after string, take func(old, new *entry) bool) error {
	a, stopA, err := l.pull(ctx, org, from, after)
	if err != nil {
		return err
	}
	defer stopA()
	b, stopB, err := l.pull(ctx, org, to, after)
	if err != nil {
		return err
	}
	defer stopB()
	old, new := &cursor{next: a}, &cursor{next: b}
	old.advance()
	new.advance()
	for old.err == nil && new.err == nil && (old.entry != nil || new.entry != nil) {
		x, y := step(old, new)
		if (x == nil || y == nil || !x.same(y)) && !take(x, y) {
			return nil
		}
	}
	return errors.Join(old.err, new.err)
}

func (l *Library) pull(ctx context.Context, org, digest, after string) (func() (*entry, error, bool), func(), error) {
	if digest == "" {
		return func() (*entry, error, bool) { return nil, nil, false }, func() {}, checkOrg(org)
	}
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return nil, nil, err
	}
	next, stop := iter.Pull2(m.from(ctx, after))
	return next, stop, nil
}

// cursor stands on an entry of a tree; on none at its end or after a fault.
type cursor struct {
	next  func() (*entry, error, bool)
	entry *entry
	err   error
}

func (c *cursor) advance() {
	var ok bool
	if c.entry, c.err, ok = c.next(); !ok || c.err != nil {
		c.entry = nil
	}
}

// step takes what comes first from two cursors, at least one of them on an
// entry: from both, if they stand on one path. After a fault of a cursor what
// the other gives says nothing.
func step(old, new *cursor) (x, y *entry) {
	order := 0
	switch {
	case old.entry == nil:
		order = 1
	case new.entry == nil:
		order = -1
	default:
		order = comparePaths(old.entry.path, new.entry.path)
	}
	if order <= 0 {
		x = old.entry
		old.advance()
	}
	if order >= 0 {
		y = new.entry
		new.advance()
	}
	return x, y
}
