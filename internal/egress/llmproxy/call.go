package llmproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// modelCall is a request that is forwarded to the provider.
type modelCall struct {
	p               *Proxy
	x               *proxy.Exchange
	url             *url.URL
	counted         bool // the call uses the model, so its tokens are counted
	checkBackground bool // the request may ask for a response in the background, which would not be counted
	heard           time.Time
	body            *requestBody
}

// handle forwards the request to the provider and the response to the client. It
// returns false if the response is incomplete.
func (c *modelCall) handle(w http.ResponseWriter, r *http.Request) (complete bool) {
	c.hear()
	var release func()
	var err error
	c.body, release, err = readBody(r, &c.p.buffered, c.checkBackground)
	defer release()
	if cause := context.Cause(r.Context()); err != nil && cause != nil {
		c.x.Err = cause
		return false
	}
	ctx, watch, stop := newIdleWatch(r.Context(), c.p.c.Idle)
	defer stop()
	if err != nil {
		return c.refuse(w, c.failure(ctx, err))
	}
	res, err := c.p.pool.transport.RoundTrip(c.outgoing(ctx, r))
	if err != nil {
		if cause := context.Cause(r.Context()); cause != nil {
			c.x.Err = cause
			return false
		}
		return c.refuse(w, c.failure(ctx, err))
	}
	defer res.Body.Close()
	watch.reset()
	if res.StatusCode/100 == 3 && res.StatusCode != http.StatusNotModified || res.StatusCode < 200 {
		return c.refuse(w, &errorResponse{status: http.StatusBadGateway, kind: "api_error", message: "The model's provider sent a redirect. Redirects are not followed, because the key is for this host only. Correct provider.baseUrl."})
	}
	return c.respond(ctx, w, r, res, watch)
}

// hear reports activity of the run, at most once a second.
func (c *modelCall) hear() {
	if now := c.p.c.Now(); c.heard.IsZero() || now.Sub(c.heard) >= hearEvery {
		c.heard = now
		c.p.c.Heard()
	}
}

func (c *modelCall) outgoing(ctx context.Context, r *http.Request) *http.Request {
	out := &http.Request{
		Method: r.Method, URL: c.url, Host: c.url.Host, Header: c.p.outgoingHeaders(r.Header), Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if n := len(c.body.data); n > 0 {
		out.ContentLength = int64(n)
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body.data)), nil }
		out.Body, _ = out.GetBody() // does not fail
	}
	if name := c.p.c.KeyName; name != "" && c.p.c.Key != "" {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { c.x.Secrets = []string{name} }, // called within RoundTrip
		})
	}
	return out.WithContext(ctx)
}

// respond forwards the provider's response and counts its tokens.
func (c *modelCall) respond(ctx context.Context, w http.ResponseWriter, r *http.Request, res *http.Response, watch *idleWatch) (complete bool) {
	encoding := res.Header.Get("Content-Encoding")
	plain := encoding == "" || strings.EqualFold(encoding, "identity")
	to := io.Writer(w)
	if c.p.redactor != nil && plain && r.Method != http.MethodHead {
		redactor := c.p.redactor.Writer(w)
		defer func() {
			if complete && redactor.Close() != nil {
				complete = false
			}
		}()
		to = redactor
	}
	counted := c.counted && res.StatusCode/100 == 2
	// Without a Content-Length, the client cannot detect the end of a counted response
	// before its tokens are counted. Redaction can change the length of a response.
	c.copyHeader(w.Header(), res.Header, counted || to != io.Writer(w))
	if h := w.Header(); (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) && h.Get(shouldRetry) == "" {
		h.Set(shouldRetry, "false") // another attempt would send the same key
	}
	if counted {
		m := newUsageMeter(strings.Contains(strings.ToLower(res.Header.Get("Content-Type")), "event-stream"))
		tap, closeTap := m.tap(encoding, plain)
		defer func() { closeTap(); c.count(m, !complete) }()
		to = io.MultiWriter(tap, to) // tap never fails
	}
	w.WriteHeader(res.StatusCode)
	control := http.NewResponseController(w)
	if res.ContentLength < 0 && r.Method != http.MethodHead {
		_ = control.Flush() // after an error, the copy below fails too
	}
	if err := proxy.CopyBody(to, res.Body, control, func(int) { watch.reset(); c.hear() }); err != nil {
		c.x.Err = c.copyError(ctx, err)
		return false
	}
	return true
}

// tap returns a writer that decodes the provider's response and passes it to m, and a
// function that closes the writer.
func (m *usageMeter) tap(encoding string, plain bool) (io.Writer, func()) {
	if plain {
		return m, func() {}
	}
	if !strings.EqualFold(encoding, "gzip") {
		m.events, m.limit = false, 0 // in other encodings only the length is known
		return m, func() {}
	}
	g := &gunzip{meter: m}
	return g, g.finish
}

func (c *modelCall) count(m *usageMeter, interrupted bool) {
	t := m.usage(c.p.anthropic, int64(len(c.body.data)), interrupted)
	c.p.c.Count(m.model, c.body.model, t)
}

// copyHeader copies the headers of the provider's response for the client and replaces
// the key in their values. It omits hop-by-hop headers, cookies, and, if dropLength is
// set, Content-Length.
func (c *modelCall) copyHeader(to, from http.Header, dropLength bool) {
	for name, values := range from {
		if proxy.IsHopByHop(name, from["Connection"]) || name == "Set-Cookie" || dropLength && name == "Content-Length" {
			continue
		}
		for _, v := range values {
			if c.p.redactor != nil {
				v = c.p.redactor.Mask(v)
			}
			to.Add(name, v)
		}
	}
	for _, name := range []string{"Date", "Content-Type"} { // keeps net/http from adding a header that the provider omitted
		if _, ok := to[name]; !ok {
			to[name] = nil
		}
	}
}

// copyError returns the error with which the copy of a response was interrupted, without
// the key.
func (c *modelCall) copyError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.New(c.p.reason(err))
}
