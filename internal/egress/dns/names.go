package dns

import (
	"net/netip"
	"sync"

	"github.com/stint-dev/stint/internal/lru"
)

// nameAddrs is the range of addresses that represent names. The range is reserved for
// benchmarks of network devices, so it contains no address of a real server.
var nameAddrs = netip.MustParsePrefix("198.18.0.0/15")

// maxNames is the maximum number of names of a run that have an address at the same
// time.
const maxNames = 8192

// IsNameAddr reports whether a is in the range of addresses that represent
// names.
func IsNameAddr(a netip.Addr) bool { return nameAddrs.Contains(a) }

// Names assigns an address to each name that a sandbox looks up. An address is never
// assigned to another name. If a program uses an address after its name was removed, the
// connection fails instead of reaching the wrong host. Names is safe for concurrent use.
type Names struct {
	mu     sync.Mutex // guards the fields below
	byName *lru.Cache[string, netip.Addr]
	byAddr *lru.Cache[netip.Addr, string] // inverse of byName; both record each use, so that they remove the same name
	last   netip.Addr
}

// NewNames returns an empty table.
func NewNames() *Names {
	return &Names{byName: lru.New[string, netip.Addr](maxNames), byAddr: lru.New[netip.Addr, string](maxNames), last: nameAddrs.Addr()}
}

// Addr returns the address of name. On first use it assigns an address; if 8,192 names
// have an address already, it removes the least recently used name. The first and the last
// address of the range are not assigned. If all others have been assigned, ok is false.
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

// Name returns the name that an address represents. It returns false if there is none.
func (n *Names) Name(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byAddr.Get(a)
	if ok {
		n.byName.Get(name)
	}
	return name, ok
}
