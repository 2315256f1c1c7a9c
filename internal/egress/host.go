package egress

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// hostAge is how long the worker's addresses are taken to be the same.
const hostAge = 30 * time.Second

// host knows the addresses of the worker itself.
type host struct {
	read   func() ([]net.Addr, error)
	now    func() time.Time
	logger *slog.Logger

	mu   sync.Mutex // guards what follows
	at   time.Time
	mine map[netip.Addr]bool
}

// newHost reads the addresses, so that they are known from the first
// connection on.
func newHost(c Config) (*host, error) {
	h := &host{read: c.Addresses, now: c.Now, logger: c.Logger}
	return h, h.renew()
}

// has reports whether a, a bare address, is one of the worker's.
func (h *host) has(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now().Sub(h.at) >= hostAge {
		if err := h.renew(); err != nil {
			h.logger.Warn("the worker's addresses may have changed", "error", err)
		}
	}
	return h.mine[a]
}

// renew reads the addresses; after an error those before are kept as long.
func (h *host) renew() error {
	h.at = h.now()
	addrs, err := h.read()
	if err != nil {
		return fmt.Errorf("reading the worker's addresses: %w", err)
	}
	h.mine = make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				h.mine[bare(ip)] = true
			}
		}
	}
	return nil
}
