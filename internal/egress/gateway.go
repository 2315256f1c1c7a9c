package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/egress/dns"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/tlsca"
)

const (
	defaultMaxConns   = 256     // simultaneous connections of a run
	defaultLogEntries = 100_000 // log entries of a run
)

// Config is the configuration of a Gateway. It applies to all runs. The zero value is
// valid.
type Config struct {
	// Resolver looks up names. The default is the host's resolver without its search
	// list.
	Resolver dns.Resolver
	// Dialer connects to an address that was checked. The default is a net.Dialer.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Deny contains addresses that no run may reach, even if its definition allows
	// them.
	Deny []netip.Prefix
	// DenyHost disables host.stint.internal and other routes to the worker.
	DenyHost bool
	// Addresses returns the worker's own addresses. A run may reach such an address
	// only if a rule contains exactly this address and a port, and DenyHost is false.
	// The default is net.InterfaceAddrs.
	Addresses func() ([]net.Addr, error)
	// Authority issues the certificates of intercepted TLS connections. If it is
	// nil, no connection is intercepted.
	Authority *tlsca.Authority
	// Roots contains the certificate authorities that are trusted for connections to
	// servers. The default is the system's roots.
	Roots *x509.CertPool
	// MaxConns limits the simultaneous connections of a run. The default is 256.
	MaxConns int
	// LogEntries limits the entries in the log of a run. A quarter of them is reserved
	// for refusals, and the rest for all other entries. The default is 100,000.
	LogEntries int
	// Bandwidth, in bytes per second, limits each run in each direction; 0 is
	// unlimited.
	Bandwidth int64
	// IdleTimeout is the time without transferred bytes after which a tunnelled
	// connection or the response of a model is ended. The default is one hour.
	IdleTimeout time.Duration
	// API serves requests of sandboxes to stint.APIAlias. If API is nil, this name
	// does not exist in sandboxes.
	API    http.Handler
	Now    func() time.Time
	Logger *slog.Logger
}

// Gateway is the egress of all runs of a worker. It is safe for concurrent use and need
// not be closed.
type Gateway struct {
	config Config
	worker *policy.WorkerAddresses
}

// New returns a gateway, or an error if the configuration is invalid.
func New(c Config) (*Gateway, error) {
	if c.MaxConns < 0 || c.LogEntries < 0 || c.Bandwidth < 0 || c.IdleTimeout < 0 {
		return nil, errors.New("egress: limits may not be negative")
	}
	c.setDefaults()
	deny := make([]netip.Prefix, len(c.Deny))
	for i, p := range c.Deny {
		if !p.IsValid() {
			return nil, errors.New("egress: a range to deny is invalid")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		deny[i] = p.Masked()
	}
	c.Deny = deny
	w, err := policy.NewWorkerAddresses(c.Addresses, c.Now, c.Logger)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return &Gateway{config: c, worker: w}, nil
}

func (c *Config) setDefaults() {
	if c.Resolver == nil {
		c.Resolver = dns.HostResolver{}
	}
	if c.Dialer == nil {
		c.Dialer = (&net.Dialer{}).DialContext
	}
	if c.MaxConns == 0 {
		c.MaxConns = defaultMaxConns
	}
	if c.LogEntries == 0 {
		c.LogEntries = defaultLogEntries
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Addresses == nil {
		c.Addresses = net.InterfaceAddrs
	}
}
