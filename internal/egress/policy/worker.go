package policy

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// workerAddressesTTL is the time for which the worker's addresses are cached.
const workerAddressesTTL = 30 * time.Second

// WorkerAddresses caches the addresses of the worker's own interfaces. It is
// safe for concurrent use.
type WorkerAddresses struct {
	list   func() ([]net.Addr, error)
	now    func() time.Time
	logger *slog.Logger

	mu    sync.Mutex // guards the fields below
	at    time.Time
	addrs map[netip.Addr]bool
}

// NewWorkerAddresses calls list to read the addresses and returns its error. Contains
// calls list again if the addresses are older than 30 seconds. If such a call fails, the
// error is logged, and the previous addresses are kept.
func NewWorkerAddresses(list func() ([]net.Addr, error), now func() time.Time, logger *slog.Logger) (*WorkerAddresses, error) {
	w := &WorkerAddresses{list: list, now: now, logger: logger}
	return w, w.refresh()
}

// Contains reports whether the effective address a is one of the worker's addresses.
func (w *WorkerAddresses) Contains(a netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now().Sub(w.at) >= workerAddressesTTL {
		if err := w.refresh(); err != nil {
			w.logger.Warn("the worker's addresses may have changed", "error", err)
		}
	}
	return w.addrs[a]
}

func (w *WorkerAddresses) refresh() error {
	w.at = w.now()
	addrs, err := w.list()
	if err != nil {
		return fmt.Errorf("reading the worker's addresses: %w", err)
	}
	w.addrs = make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				w.addrs[effective(ip)] = true
			}
		}
	}
	return nil
}
