package files

import "strings"

// arrange makes a tree of entries that come in path order. Of several for one
// path the last counts, as it does when a tar is unpacked; they must be of one
// kind. Folders that no entry names are added, with mode 0755 and the Unix
// epoch as their time.
type treeBuilder struct {
	limits *Limits
	take   func(*entry) error
	next   *entry   // waits for a later one of its path
	above  []*entry // the entry taken last and those that it lies under
	count  int64
}

func (a *treeBuilder) add(e *entry) error {
	if a.next != nil && a.next.path == e.path {
		if a.next.kind != e.kind {
			return invalid("The entry '%s' comes twice, as a %s and as a %s.", printable(e.path), a.next.kind, e.kind)
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
	for len(a.above) > 0 && !isUnder(e.path, a.above[len(a.above)-1].path) {
		a.above = a.above[:len(a.above)-1]
	}
	known := 0 // bytes of e.path that name an entry above it
	if n := len(a.above); n > 0 {
		top := a.above[n-1]
		if top.kind != folder {
			return invalid("The entry '%s' lies under '%s', which is a %s.", printable(e.path), printable(top.path), top.kind)
		}
		known = len(top.path) + 1
	}
	for i := strings.IndexByte(e.path[known:], '/'); i >= 0; i = strings.IndexByte(e.path[known:], '/') {
		if err := a.emit(&entry{path: e.path[:known+i], kind: folder, mode: 0o755}); err != nil {
			return err
		}
		known += i + 1
	}
	return a.emit(e)
}

func (a *treeBuilder) emit(e *entry) error {
	if a.count++; a.count > a.limits.Entries {
		return tooLarge("The tree has more than %d entries.", a.limits.Entries)
	}
	a.above = append(a.above, e)
	return a.take(e)
}
