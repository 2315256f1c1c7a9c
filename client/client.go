package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

// Options selects the server and the token.
type Options struct {
	// URL is the server's address, such as http://127.0.0.1:8700.
	URL string
	// Token goes into the Authorization header: stint_live_ and 64 hex digits.
	Token string
	// HTTP sends the requests; http.DefaultClient's transport when nil. Its
	// Timeout must be 0, for it would cut streams and transfers off; bound
	// calls by their context.
	HTTP *http.Client
	// UserAgent names the program; "stint-go" when empty.
	UserAgent string
	// Attempts bounds how often one request is sent, and how often a stream
	// reconnects in a row without receiving anything; 0 is 6.
	Attempts int
	// Backoff is the first pause between attempts, doubled each time up to 30
	// times its length; 0 is 200 ms. What the server asks for goes before, as
	// long as it asks for no more than a minute.
	Backoff time.Duration
}

// Client talks to one server with one token. It is safe for concurrent use.
type Client struct {
	Runs        *Runs
	Agents      *Agents
	Artifacts   *FileSets
	Volumes     *FileSets
	Sessions    *Sessions
	Checkpoints *Checkpoints
	Tokens      *Tokens
	Secrets     *Secrets

	base      *url.URL
	token     string
	userAgent string
	attempts  int
	backoff   time.Duration
	http      *http.Client
}

// New prepares a client; it sends nothing yet. The only error is a URL that
// is none.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("'%s' is no server address such as http://127.0.0.1:8700", o.URL)
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("the server address '%s' must be a scheme, a host and at most a path", base.Redacted())
	}
	c := &Client{base: base, token: o.Token, userAgent: o.UserAgent, attempts: o.Attempts, backoff: o.Backoff}
	if c.userAgent == "" {
		c.userAgent = "stint-go"
	}
	if c.attempts <= 0 {
		c.attempts = 6
	}
	if c.backoff <= 0 {
		c.backoff = 200 * time.Millisecond
	}
	c.http = withoutRedirects(o.HTTP)
	c.Runs, c.Agents, c.Sessions = &Runs{c}, &Agents{c}, &Sessions{c}
	c.Checkpoints, c.Tokens, c.Secrets = &Checkpoints{c}, &Tokens{c}, &Secrets{c}
	c.Artifacts, c.Volumes = &FileSets{c, stint.Artifacts}, &FileSets{c, stint.Volumes}
	return c, nil
}

// withoutRedirects copies h so that redirects are answers: only downloads
// follow them, and without the token.
func withoutRedirects(h *http.Client) *http.Client {
	out := &http.Client{}
	if h != nil {
		*out = *h
	}
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return out
}

// URL is the address of the server.
func (c *Client) URL() string { return c.base.String() }
