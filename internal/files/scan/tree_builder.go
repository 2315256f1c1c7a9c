package scan

import (
	"strings"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
)

// arrange makes a tree of entries that come in path order. Of several for one
// path the last counts, as it does when a tar is unpacked; they must be of one
// kind. Folders that no entry names are added, with mode 0755 and the Unix
// epoch as their time.
type treeBuilder struct {
	limits *limits.Limits
	take   func(*format.Entry) error
	next   *format.Entry   // waits for a later one of its path
	above  []*format.Entry // the entry taken last and those that it lies under
	count  int64
}

func (a *treeBuilder) add(e *format.Entry) error {
	if a.next != nil && a.next.Path == e.Path {
		if a.next.Kind != e.Kind {
			return limits.Invalid("The entry '%s' comes twice, as a %s and as a %s.", limits.Printable(e.Path), a.next.Kind, e.Kind)
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

// flush takes the entry that waits. It ends the tree, too.
func (a *treeBuilder) flush() error {
	e := a.next
	if e == nil {
		return nil
	}
	a.next = nil
	for len(a.above) > 0 && !format.IsUnder(e.Path, a.above[len(a.above)-1].Path) {
		a.above = a.above[:len(a.above)-1]
	}
	known := 0 // bytes of e.path that name an entry above it
	if n := len(a.above); n > 0 {
		top := a.above[n-1]
		if top.Kind != format.Folder {
			return limits.Invalid("The entry '%s' lies under '%s', which is a %s.", limits.Printable(e.Path), limits.Printable(top.Path), top.Kind)
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
