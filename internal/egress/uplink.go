package egress

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/dns"
	"github.com/stint-dev/stint/internal/egress/llmproxy"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
	"github.com/stint-dev/stint/internal/sandbox"
)

// RunConfig is the egress configuration of one run.
type RunConfig struct {
	Mode  policy.Mode // Public if empty
	Allow []policy.Rule
	// Inspect are hosts (domain or *.domain, optional :port) whose TLS connections
	// are intercepted, so that each request is logged.
	Inspect []string
	// Secrets are inserted into requests to their hosts, whose TLS connections are
	// intercepted for this.
	Secrets []policy.Secret
	// Model is served as stint.ModelAlias; nil: the name does not exist.
	Model *Model
	// APIToken authenticates the sandbox's requests to stint.APIAlias; empty: the
	// name does not exist.
	APIToken string
	// Record receives the log entries, one at a time and in order. It may block;
	// entries beyond the log's limits are then counted, not kept.
	Record func(log.Entry)
}

// Model is the endpoint of a run's model. It is allowed in every mode, unless
// its address is refused.
type Model struct {
	Type    string // anthropic, openai-responses or openai-chat
	BaseURL string // of the API, without a final slash
	Key     string // inserted into requests; may be empty
	// Count receives the tokens of each call, with the model named in its response
	// and in its request; either may be empty. It is called concurrently, also for
	// interrupted calls with the usage known until then.
	Count func(answered, asked string, t stint.Tokens)
	// Heard is called when a call begins and while its response arrives.
	Heard func()
}

// Uplink is the egress of one run. Its methods are safe for concurrent use.
type Uplink struct {
	gateway *Gateway
	config  RunConfig
	policy  policy.Policy
	inspect []string // hosts with intercepted TLS connections
	names   *dns.Names
	lookups *dns.Cache
	dns     *dns.Server
	log     *log.Buffer
	model   *llmproxy.Proxy // nil without a model
	api     llmproxy.API
	up      *rateLimit // nil without a limit
	down    *rateLimit

	life  context.Context //nolint:containedctx // ends with Close
	end   context.CancelFunc
	slots chan struct{} // one per connection
	count atomic.Int64  // of connections so far

	sent, received atomic.Int64
	headerBytes    atomic.Int64 // of requests in progress
	redactors      proxy.Redactors

	mu       sync.Mutex // guards closed and networks, and the start of Serve against Close
	closed   bool
	networks []*sandbox.Network
	work     sync.WaitGroup
}

// Open returns the egress of a run, which must be closed. No connection is
// accepted before Serve.
func (g *Gateway) Open(r RunConfig) (*Uplink, error) {
	switch r.Mode {
	case "":
		r.Mode = policy.Public
	case policy.Public, policy.Restricted, policy.None:
	default:
		return nil, errors.New("egress: unknown network mode " + string(r.Mode))
	}
	if r.Record == nil {
		r.Record = func(log.Entry) {}
	}
	c := g.config
	u := &Uplink{
		gateway: g, config: r,
		policy:  policy.Policy{Mode: r.Mode, Allow: slices.Clone(r.Allow), Deny: c.Deny, DenyHost: c.DenyHost, IsWorker: g.worker.Contains},
		names:   dns.NewNames(),
		lookups: dns.NewCache(c.Resolver, c.Now),
		slots:   make(chan struct{}, c.MaxConns),
		up:      newRateLimit(c.Bandwidth),
		down:    newRateLimit(c.Bandwidth),
	}
	if err := u.openInternal(); err != nil {
		return nil, err
	}
	u.dns = dns.NewServer(u.resolve, func() {
		u.log.Write(log.Entry{Time: c.Now(), Action: log.Deny, Rule: "too many queries", Protocol: "dns", Port: dnsPort})
	})
	u.log = log.NewBuffer(c.Now, c.LogEntries, r.Record)
	if c.Authority != nil {
		u.inspect = slices.Clone(r.Inspect)
		for _, secret := range r.Secrets {
			u.inspect = append(u.inspect, secret.Hosts...)
		}
	}
	u.life, u.end = context.WithCancel(context.Background())
	return u, nil
}

// Serve starts to accept the traffic of a sandbox and returns. The uplink closes
// the network.
func (u *Uplink) Serve(n *sandbox.Network) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		closeNetwork(n)
		return
	}
	u.networks = append(u.networks, n)
	if n.TCP != nil {
		u.work.Go(func() { u.acceptAll(n.TCP) })
	}
	if n.DNS != nil {
		u.work.Go(func() { u.dns.ServePackets(u.life, n.DNS) })
	}
}

// Close closes every connection and the listeners, waits for their goroutines,
// and delivers the remaining log entries. It is idempotent.
func (u *Uplink) Close() {
	u.mu.Lock()
	u.closed = true
	networks := u.networks
	u.networks = nil
	u.mu.Unlock()
	u.end()
	for _, n := range networks {
		closeNetwork(n)
	}
	u.work.Wait()
	if u.model != nil {
		u.model.Close()
	}
	u.log.Close()
}

func closeNetwork(n *sandbox.Network) {
	if n.TCP != nil {
		_ = n.TCP.Close()
	}
	if n.DNS != nil {
		_ = n.DNS.Close()
	}
}

// Traffic returns the bytes that the sandbox has sent and received over TCP. A
// tunnel is counted every few seconds and at its end.
func (u *Uplink) Traffic() (sent, received int64) { return u.sent.Load(), u.received.Load() }
