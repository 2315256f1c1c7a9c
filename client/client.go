package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

// Options configures a Client.
type Options struct {
	// URL is the server's address, such as http://127.0.0.1:8700.
	URL string
	// Token is sent in the Authorization header. It consists of stint_live_ and 64
	// hex digits.
	Token string
	// HTTP sends the requests; nil means http.DefaultTransport. Its Timeout must
	// be 0, because a timeout would end streams and transfers. Limit calls by
	// their context instead.
	HTTP *http.Client
	// UserAgent identifies the program; empty means "stint-go".
	UserAgent string
	// Attempts is the maximum number of times that a request is sent, and that a
	// stream reconnects in a row without receiving anything; 0 means 6.
	Attempts int
	// Backoff is the first pause between attempts; 0 means 200 ms. Each further
	// pause is twice as long, up to 30 times Backoff. Each pause is shortened at
	// random, by up to a half. If the server requests a pause, that one is used. If
	// it exceeds a minute, the call fails.
	Backoff time.Duration
}

// Client sends requests to one server with one token. It is safe for concurrent use.
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

// New returns a client. It does not send a request. It returns an error if the URL is
// not valid.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		host := o.URL[strings.LastIndex(o.URL, "@")+1:] // without a password
		return nil, fmt.Errorf("'%s' is not a server address such as http://127.0.0.1:8700", host)
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

// withoutRedirects returns a copy of h that returns redirects as responses instead of
// following them. Only downloads follow a redirect, and they do not send the token to
// its target.
func withoutRedirects(h *http.Client) *http.Client {
	out := &http.Client{}
	if h != nil {
		*out = *h
	}
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return out
}

// URL returns the address of the server.
func (c *Client) URL() string { return c.base.String() }
