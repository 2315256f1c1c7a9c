package llmproxy

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/conntrack"
	"github.com/stint-dev/stint/internal/egress/proxy"
	"github.com/stint-dev/stint/internal/masking"
)

const (
	// RuleProvider is the rule of requests for the model.
	RuleProvider = "provider"
	// RuleAPI is the rule of requests for the server's API.
	RuleAPI = "api"

	minSilence = 10 * time.Minute // minimum time limit for the beginning of a response, because models may think for long
	hearEvery  = time.Second
	keyName    = "stint-model-key" // text that replaces the key in responses
)

// Config describes a run's model. Its functions are called concurrently.
type Config struct {
	Type    string // stint.ProviderAnthropic, ProviderResponses or ProviderChat
	BaseURL string
	Key     string // empty for none
	KeyName string // name of the secret with the key, for the log
	// Dial connects to an address that the policy allows. If the policy refuses the
	// host, the error is a policy.Refusal.
	Dial  conntrack.DialFunc
	Roots *x509.CertPool // trusted roots for the provider's certificate; nil means the system's roots
	Idle  time.Duration  // time without bytes after which a response is ended
	Now   func() time.Time
	// Count receives the tokens of a successful call, the model in its response, and the
	// model in its request. Either model may be empty. Count may be nil.
	Count func(answered, asked string, t stint.Tokens)
	Heard func() // is called when a call begins and when bytes of its response arrive, at most once a second in a call; may be nil
}

// Proxy forwards a run's requests to its model. It is safe for concurrent use.
type Proxy struct {
	c         Config
	base      *url.URL
	port      uint16
	anthropic bool
	redactor  *masking.Masker // nil without a key
	pool      *providerPool
	buffered  atomic.Int64 // bytes of the request bodies in memory
}

// New returns a proxy, which the caller must close. It returns an error if the type or
// the URL of the provider is invalid.
func New(c Config) (*Proxy, error) {
	m := &Proxy{c: c, anthropic: c.Type == stint.ProviderAnthropic}
	if !m.anthropic && c.Type != stint.ProviderResponses && c.Type != stint.ProviderChat {
		return nil, fmt.Errorf("unknown provider type %q", c.Type)
	}
	var err error
	if m.base, err = url.Parse(strings.TrimRight(c.BaseURL, "/")); err != nil {
		return nil, fmt.Errorf("reading the provider's URL: %w", err)
	}
	if m.port, err = portOf(m.base); err != nil {
		return nil, err
	}
	if m.c.Count == nil {
		m.c.Count = func(string, string, stint.Tokens) {}
	}
	if m.c.Heard == nil {
		m.c.Heard = func() {}
	}
	if c.Key != "" {
		m.redactor = masking.NewRedactor([]masking.Secret{{Value: c.Key, Replacement: keyName}})
	}
	m.pool = newProviderPool(c.Dial, c.Roots)
	return m, nil
}

// Close closes all connections to the provider and waits for dials in progress. It must
// be called after the end of the last call.
func (p *Proxy) Close() { p.pool.close() }

func portOf(u *url.URL) (uint16, error) {
	ports := map[string]uint16{"http": 80, "https": 443}
	port, ok := ports[u.Scheme]
	if !ok || u.Hostname() == "" {
		return 0, errors.New("the provider's URL must begin with http:// or https:// and name a host")
	}
	if u.Port() == "" {
		return port, nil
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("the port in the provider's URL is not a number from 1 to 65535")
	}
	return uint16(n), nil
}

// Handler returns the handler of a request to the model. Handler sets the rule of x and,
// if the request is forwarded, the URL and the destination of x. The returned function
// sets the error of x.
func (p *Proxy) Handler(r *http.Request, x *proxy.Exchange) proxy.LocalHandler {
	x.Rule = RuleProvider
	c := &modelCall{p: p, x: x}
	way, f := p.route(r)
	switch {
	case f != nil:
		return func(w http.ResponseWriter, _ *http.Request) bool { return c.refuse(w, f) }
	case way == routeLocal:
		return respondEmpty
	}
	c.counted = way == routeCall
	c.checkBackground = mayBackground(r)
	c.url = p.upstreamURL(r)
	x.URL, x.Host, x.Port = c.url.String(), strings.ToLower(p.base.Hostname()), p.port
	return c.handle
}

// respondEmpty answers a request with which a client checks that a server exists.
func respondEmpty(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return true
}
