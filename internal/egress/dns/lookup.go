package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/lru"
)

const (
	lookupTimeout = 8 * time.Second
	maxAddresses  = 16 // addresses of a name
	maxCached     = 1024
	cacheTTL      = 10 * time.Second
)

// Resolver looks up the addresses of names. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// HostResolver is the resolver of this host. It does not use the host's search list.
type HostResolver struct{}

// LookupNetIP returns the addresses of the fully qualified name host.
func (HostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host+".")
}

// Cache looks up the addresses of names and keeps them for ten seconds. It is safe for
// concurrent use.
type Cache struct {
	resolver Resolver
	now      func() time.Time
	lookups  *lru.Cache[string, lookupResult] // results of lookups, by name
}

type lookupResult struct {
	addrs []netip.Addr
	until time.Time
}

// NewCache returns an empty cache of the resolver's answers.
func NewCache(r Resolver, now func() time.Time) *Cache {
	return &Cache{resolver: r, now: now, lookups: lru.New[string, lookupResult](maxCached)}
}

// Lookup returns the addresses of a name: at least 1 and at most 16, IPv4 addresses
// first. If the name has no address, the error is a *net.DNSError.
func (c *Cache) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if hit, ok := c.lookups.Get(name); ok && c.now().Before(hit.until) {
		return hit.addrs, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, errors.New("no answer in time"))
	defer cancel()
	found, err := c.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		addrs = append(addrs, a.Unmap())
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	addrs = addrs[:min(len(addrs), maxAddresses)]
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	c.lookups.Put(name, lookupResult{addrs, c.now().Add(cacheTTL)})
	return addrs, nil
}
