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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/llmproxy"
	"github.com/stint-dev/stint/internal/egress/proxy"
	"github.com/stint-dev/stint/internal/egress/tlsca"
	"github.com/stint-dev/stint/internal/sandbox"
)

const (
	defaultMaxConns   = 256     // connections that a run may hold at once
	defaultLogEntries = 100_000 // of the log of a run
)

// Config is what all runs share. The zero value works.
type Config struct {
	// Resolver looks names up; the host's, without its search list, when nil.
	Resolver Resolver
	// Dialer connects to an address that was checked; a plain one when nil.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Deny is never reachable, whatever definitions say.
	Deny []netip.Prefix
	// DenyHost turns host.stint.internal and other ways to the worker itself off.
	DenyHost bool
	// Addresses are those of the worker itself, which are held to the same as its
	// loopback; net.InterfaceAddrs when nil.
	Addresses func() ([]net.Addr, error)
	// Authority vouches for hosts whose TLS is terminated; without it none is.
	Authority *tlsca.Authority
	// Roots are believed upstream; the system's when nil.
	Roots *x509.CertPool
	// MaxConns is how many connections a run may hold at once; 256 when 0.
	MaxConns int
	// LogEntries is how many entries the log of a run may have, of which a quarter
	// is for refusals alone and the rest for all else; 100,000 when 0.
	LogEntries int
	// Bandwidth is in bytes a second, for each run and direction; 0 is no limit.
	Bandwidth int64
	// IdleTimeout ends a connection on which nothing flows; an hour when 0.
	IdleTimeout time.Duration
	// API answers what sandboxes send to stint.APIAlias; nil: nothing does.
	API    http.Handler
	Now    func() time.Time
	Logger *slog.Logger
}

// Gate is the server's way out, shared by all runs. It is safe for concurrent
// use and needs no closing.
type Gate struct {
	config Config
	host   *host
}

// New checks the configuration and makes the gate.
func New(c Config) (*Gate, error) {
	if c.MaxConns < 0 || c.LogEntries < 0 || c.Bandwidth < 0 || c.IdleTimeout < 0 {
		return nil, errors.New("egress: limits may not be negative")
	}
	if c.Resolver == nil {
		c.Resolver = rooted{net.DefaultResolver}
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
	deny := make([]netip.Prefix, len(c.Deny))
	for i, p := range c.Deny {
		if !p.IsValid() {
			return nil, errors.New("egress: a range to deny is not valid")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		deny[i] = p.Masked()
	}
	c.Deny = deny
	h, err := newHost(c)
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return &Gate{config: c, host: h}, nil
}

// Run is what one run may reach and who is told about it.
type Run struct {
	Mode  Mode // Public when empty
	Allow []stint.Rule
	// Inspect are hosts (domain or *.domain, optional :port) whose TLS is
	// terminated, so that each request is logged.
	Inspect []string
	// Secrets are put in toward their hosts, whose TLS is terminated for it.
	Secrets []proxy.Secret
	// Model is what the sandbox reaches as stint.ModelAlias; nil: nothing.
	Model *Model
	// APIToken lets the sandbox reach the server's API as stint.APIAlias, with
	// this token and no other; empty: it does not.
	APIToken string
	// Record takes the entries, one at a time and in order. It may block; what
	// piles up meanwhile beyond the log's bounds is counted, not kept.
	Record func(Entry)
}

// Model is the endpoint of a run's model. The policy's modes do not rule it,
// what addresses are refused does.
type Model struct {
	Type    string // anthropic, openai-responses or openai-chat
	BaseURL string // of the API, without a slash at its end
	Key     string // put in on the way; empty for none
	// Count takes what each call used of the model that its answer names and that
	// its request does; either may be empty. It may be called concurrently, and by
	// calls that are cut off, with what was known until then.
	Count func(answered, asked string, t stint.Tokens)
	// Heard is called when a call begins and as its answer comes.
	Heard func()
}

// Session is one run's share of the gate. Its methods are safe for concurrent
// use.
type Session struct {
	gate    *Gate
	run     Run
	policy  policy
	inspect []string // hosts whose TLS is terminated, for whatever reason
	pins    *pins
	answers answers
	journal *journal
	model   *llmproxy.Model // nil without one
	api     llmproxy.API
	up      *pace // nil without a limit
	down    *pace

	life  context.Context // ends with Close; what the session starts lives in it
	end   context.CancelFunc
	conns chan struct{} // one place for each connection
	asks  chan struct{} // one place for each DNS query
	count atomic.Int64  // connections so far

	sent, received atomic.Int64
	heads          atomic.Int64 // bytes of the headers of requests under way

	mu     sync.Mutex // guards closed and far, and Serve's start against Close
	closed bool
	far    []*sandbox.Network
	work   sync.WaitGroup
}

// Open begins a run's session, which is to be closed. Nothing is reached
// before Serve.
func (g *Gate) Open(r Run) (*Session, error) {
	switch r.Mode {
	case "":
		r.Mode = Public
	case Public, Restricted, None:
	default:
		return nil, errors.New("egress: unknown network mode " + string(r.Mode))
	}
	if r.Record == nil {
		r.Record = func(Entry) {}
	}
	s := &Session{
		gate: g, run: r,
		policy:  policy{mode: r.Mode, allow: slices.Clone(r.Allow), deny: g.config.Deny, denyHost: g.config.DenyHost, host: g.host.has},
		pins:    newPins(),
		answers: answers{of: map[string]answer{}},
		conns:   make(chan struct{}, g.config.MaxConns),
		asks:    make(chan struct{}, maxQueries),
		up:      newPace(g.config.Bandwidth),
		down:    newPace(g.config.Bandwidth),
	}
	if err := s.openOwn(); err != nil {
		return nil, err
	}
	s.journal = newJournal(g.config.Now, g.config.LogEntries, r.Record)
	if g.config.Authority != nil {
		s.inspect = slices.Clone(r.Inspect)
		for _, secret := range r.Secrets {
			s.inspect = append(s.inspect, secret.Hosts...)
		}
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Serve starts to accept what the sandbox sends, and returns. The network
// belongs to the session from then on.
func (s *Session) Serve(n *sandbox.Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		closeNetwork(n)
		return
	}
	s.far = append(s.far, n)
	if n.TCP != nil {
		s.work.Go(func() { s.acceptAll(n.TCP) })
	}
	if n.DNS != nil {
		s.work.Go(func() { s.answerAll(n.DNS) })
	}
}

// Close ends every connection and both listeners, waits for all of it, and
// delivers what is left to Record. It is idempotent.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	far := s.far
	s.far = nil
	s.mu.Unlock()
	s.end()
	for _, n := range far {
		closeNetwork(n)
	}
	s.work.Wait()
	if s.model != nil {
		s.model.Close()
	}
	s.journal.close()
}

func closeNetwork(n *sandbox.Network) {
	if n.TCP != nil {
		_ = n.TCP.Close()
	}
	if n.DNS != nil {
		_ = n.DNS.Close()
	}
}

// Traffic counts the bytes that the sandbox sent and received so far over TCP.
// A tunnel is counted every few seconds and at its end.
func (s *Session) Traffic() (sent, received int64) { return s.sent.Load(), s.received.Load() }

// pause waits between failed calls of a listener; false when the session ends.
func (s *Session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.life.Done():
		return false
	}
}
