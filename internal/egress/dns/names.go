package dns

import (
	"net/netip"
	"sync"

	"github.com/stint-dev/stint/internal/lru"
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
	byName *lru.Cache[string, netip.Addr]
	byAddr *lru.Cache[netip.Addr, string] // the same; each use of one is a use of the other
	last   netip.Addr
}

// NewNames returns an empty table.
func NewNames() *Names {
	return &Names{byName: lru.New[string, netip.Addr](maxNames), byAddr: lru.New[netip.Addr, string](maxNames), last: nameAddrs.Addr()}
}

// Addr returns the address of name. It assigns one on first use, and removes the
// least recently used name if there are 8,192. ok is false if the range is used
// up.
func (n *Names) Addr(name string) (addr netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok = n.byName.Get(name); ok {
		n.byAddr.Get(addr)
		return addr, true
	}
	next := n.last.Next()
	if !nameAddrs.Contains(next.Next()) {
		return netip.Addr{}, false
	}
	n.last = next
	n.byName.Put(name, next)
	n.byAddr.Put(next, name)
	return next, true
}

// Name returns the name that an address represents.
func (n *Names) Name(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byAddr.Get(a)
	if ok {
		n.byName.Get(name)
	}
	return name, ok
}
