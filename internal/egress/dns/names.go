package dns

import (
	"container/list"
	"net/netip"
	"sync"
)

// nameAddrs is the range of addresses that represent names. It is reserved for
// benchmarks of network devices, so it hides no real destination.
var nameAddrs = netip.MustParsePrefix("198.18.0.0/15")

// maxNames limits the names of a run that have an address at the same time.
const maxNames = 8192

// IsNameAddr reports whether a is in the range of addresses that represent
// names.
func IsNameAddr(a netip.Addr) bool { return nameAddrs.Contains(a) }

// Names assigns an address to each name that a sandbox looks up. An address is
// never reused for another name, so a program that keeps an address for too
// long fails instead of reaching the wrong host. Names is safe for concurrent
// use.
type Names struct {
	mu     sync.Mutex // guards all below
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	recent *list.List // of assignment, most recently used first
	last   netip.Addr
}

type assignment struct {
	name string
	addr netip.Addr
}

// NewNames returns an empty table.
func NewNames() *Names {
	return &Names{
		byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{},
		recent: list.New(), last: nameAddrs.Addr(),
	}
}

// Addr returns the address of name. It assigns one on first use, and removes the
// least recently used name if there are 8,192. ok is false if the range is used
// up.
func (n *Names) Addr(name string) (addr netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.recent.MoveToFront(e)
		return e.Value.(assignment).addr, true
	}
	next := n.last.Next()
	if !nameAddrs.Contains(next.Next()) {
		return netip.Addr{}, false
	}
	if n.recent.Len() >= maxNames {
		old := n.recent.Remove(n.recent.Back()).(assignment)
		delete(n.byName, old.name)
		delete(n.byAddr, old.addr)
	}
	n.last = next
	e := n.recent.PushFront(assignment{name, next})
	n.byName[name], n.byAddr[next] = e, e
	return next, true
}

// Name returns the name that an address represents.
func (n *Names) Name(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.byAddr[a]
	if e == nil {
		return "", false
	}
	n.recent.MoveToFront(e)
	return e.Value.(assignment).name, true
}
