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
	// Inspect lists hosts (domain or *.domain, optional :port). TLS connections to
	// these hosts are intercepted, so that each request is logged.
	Inspect []string
	// Secrets are inserted into requests to their hosts. TLS connections to these
	// hosts are intercepted for this purpose.
	Secrets []policy.Secret
	// Model is served under the host name stint.ModelAlias. If it is nil, the name
	// does not exist.
	Model *Model
	// APIToken authenticates the sandbox's requests to the host stint.APIAlias. If it
	// is empty, the name does not exist.
	APIToken string
	// Record receives the log entries, one at a time and in order. It may block.
	// Entries that exceed the log's limits are counted but not delivered.
	Record func(log.Entry)
}

// Model is the endpoint of a run's model. Connections to it are allowed in every
// network mode, unless its IP address is refused.
type Model struct {
	Type    string // anthropic, openai-responses or openai-chat
	BaseURL string // base URL of the API, without a final slash
	Key     string // API key that is inserted into requests; may be empty
	KeyName string // name of the secret with the key
	// Count receives the tokens of each successful call. answered is the model named in
	// the response, asked the model named in the request; each may be empty. Count is
	// called concurrently. If the response was interrupted, t is the usage that it
	// reported until then, but the output tokens are at least an estimate from the
	// length of the generated text.
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
	slots chan struct{} // contains one value per open connection
	count atomic.Int64  // number of connections so far

	sent, received atomic.Int64
	headerBytes    atomic.Int64 // size of the headers of requests in progress
	redactors      proxy.Redactors

	mu       sync.Mutex // guards closed and networks; Serve holds it while it adds to work
	closed   bool
	networks []*sandbox.Network
	work     sync.WaitGroup
}

// Open returns the egress of a run. The caller must close it. It accepts no
// connection before Serve. If r is invalid, Open returns an error.
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

// Serve starts to accept the traffic of a sandbox and returns. Close closes n. If
// the uplink is closed already, Serve closes n.
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

// Traffic returns the number of bytes that the sandbox has sent and received over
// TCP. The bytes of a tunnel are added every few seconds and at its end.
func (u *Uplink) Traffic() (sent, received int64) { return u.sent.Load(), u.received.Load() }
