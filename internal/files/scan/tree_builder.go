package scan

import (
	"strings"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
)

// treeBuilder builds a tree from entries in path order. Of several entries for one
// path, it uses the last, as in a tar; they must have the same kind. It adds missing
// parent folders with mode 0755 and the Unix epoch as time.
type treeBuilder struct {
	limits *limits.Limits
	take   func(*format.Entry) error
	next   *format.Entry   // pending, because another entry of its path may follow
	above  []*format.Entry // the last entry and the folders above it
	count  int64           // entries of the tree so far
}

func (a *treeBuilder) add(e *format.Entry) error {
	if a.next != nil && a.next.Path == e.Path {
		if a.next.Kind != e.Kind {
			return limits.Invalid("The entry '%s' occurs twice, as a %s and as a %s.", limits.Printable(e.Path), a.next.Kind, e.Kind)
		}
		a.next = e
		return nil
	}
	if err := a.flush(); err != nil {
		return err
	}
	a.next = e
	return nil
}

// flush adds the pending entry after its missing parent folders. After the last
// entry, it must be called to complete the tree.
func (a *treeBuilder) flush() error {
	e := a.next
	if e == nil {
		return nil
	}
	a.next = nil
	for len(a.above) > 0 && !format.IsUnder(e.Path, a.above[len(a.above)-1].Path) {
		a.above = a.above[:len(a.above)-1]
	}
	known := 0 // length of the part of e.Path for which folders exist
	if n := len(a.above); n > 0 {
		top := a.above[n-1]
		if top.Kind != format.Folder {
			return limits.Invalid("The entry '%s' is below '%s', which is a %s.", limits.Printable(e.Path), limits.Printable(top.Path), top.Kind)
		}
		known = len(top.Path) + 1
	}
	for i := strings.IndexByte(e.Path[known:], '/'); i >= 0; i = strings.IndexByte(e.Path[known:], '/') {
		if err := a.emit(&format.Entry{Path: e.Path[:known+i], Kind: format.Folder, Mode: 0o755}); err != nil {
			return err
		}
		known += i + 1
	}
	return a.emit(e)
}

func (a *treeBuilder) emit(e *format.Entry) error {
	if a.count++; a.count > a.limits.Entries {
		return limits.TooLarge("The tree has more than %d entries.", a.limits.Entries)
	}
	a.above = append(a.above, e)
	return a.take(e)
}
