package llmproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
	"github.com/stint-dev/stint/internal/masking"
)

const (
	// RuleProvider is the rule of requests for the model.
	RuleProvider = "provider"
	// RuleAPI is the rule of requests for the server's API.
	RuleAPI = "api"

	maxBody    = 64 << 20
	maxURL     = 2048
	minSilence = 10 * time.Minute // before an answer begins: models think
	hearEvery  = time.Second
	keyName    = "stint-model-key" // stands where the key would come back
)

// Config is a run's model. All functions are called concurrently.
type Config struct {
	Type    string // stint.ProviderAnthropic, ProviderResponses or ProviderChat
	BaseURL string
	Key     string // empty for none
	// Dial applies the policy and gives a connection to an address that was
	// checked, or a forward.Refusal.
	Dial  func(ctx context.Context, host string, port uint16) (net.Conn, error)
	Roots *x509.CertPool // of the provider; nil is the system's
	Idle  time.Duration  // ends an answer of which nothing comes
	Now   func() time.Time
	// Count takes what a call used of the model that the answer names, and that
	// the request does; either may be empty. nil: nobody asks.
	Count func(answered, asked string, t stint.Tokens)
	Heard func() // something goes on; nil: nobody asks
}

// Model answers a run's requests for its model. It is safe for concurrent use.
type Proxy struct {
	c         Config
	base      *url.URL
	port      uint16
	anthropic bool
	redactor  *masking.Masker // nil without a key
	pool      *pool
}

// New makes a run's model, which is to be closed.
func New(c Config) (*Proxy, error) {
	m := &Proxy{c: c, anthropic: c.Type == stint.ProviderAnthropic}
	if !m.anthropic && c.Type != stint.ProviderResponses && c.Type != stint.ProviderChat {
		return nil, fmt.Errorf("models of the type %q have no gateway", c.Type)
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
	m.pool = newPool(c.Dial, c.Roots)
	return m, nil
}

// Close ends all connections to the provider and waits for those that are
// being opened. Calls are to have ended before.
func (m *Proxy) Close() { m.pool.close() }

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
		return 0, errors.New("the port in the provider's URL is no number from 1 to 65535")
	}
	return uint16(n), nil
}

// Handler gives what answers a request for the model, and completes x by what
// becomes of it.
func (m *Proxy) Handler(r *http.Request, x *proxy.Exchange) proxy.LocalHandler {
	x.Rule = RuleProvider
	c := &call{m: m, x: x}
	way, f := m.route(r)
	switch {
	case f != nil:
		return func(w http.ResponseWriter, _ *http.Request) bool { return c.refuse(w, f) }
	case way == wayHere:
		return hello
	}
	c.counts = way == wayCall
	c.atOnce = mayBackground(r)
	c.url = m.upstreamURL(r)
	x.URL, x.Host, x.Port = clip(c.url.String()), strings.ToLower(m.base.Hostname()), m.port
	return c.answer
}

// hello tells clients that somebody is there.
func hello(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return true
}

// clip shortens a URL for the record.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxURL)], "")
}
