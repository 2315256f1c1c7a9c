package llmproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

const copySize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// call is a request while it is passed on to the provider.
type call struct {
	m      *Proxy
	x      *proxy.Exchange
	url    *url.URL
	counts bool // it uses the model
	atOnce bool // and is to answer at once, as nothing is counted of what comes later
	heard  time.Time
	asked  requested
}

// answer passes the request on and its answer back.
func (c *call) answer(w http.ResponseWriter, r *http.Request) (whole bool) {
	c.hear()
	ctx, watch, stop := newWatch(r.Context(), c.m.c.Idle)
	defer stop()
	res, err := c.m.pool.transport.RoundTrip(c.outgoing(ctx, r))
	if err != nil {
		if cause := context.Cause(r.Context()); cause != nil {
			c.x.Err = cause
			return false
		}
		return c.refuse(w, c.failed(ctx, err))
	}
	defer res.Body.Close()
	watch.goesOn()
	if res.StatusCode/100 == 3 && res.StatusCode != http.StatusNotModified || res.StatusCode < 200 {
		return c.refuse(w, &fault{status: http.StatusBadGateway, kind: "api_error", message: "The model's provider sends requests elsewhere, which are not followed, as the key is for it alone. Correct provider.baseUrl."})
	}
	return c.respond(ctx, w, r, res, watch)
}

// hear tells that something goes on, now and then.
func (c *call) hear() {
	if now := c.m.c.Now(); c.heard.IsZero() || now.Sub(c.heard) >= hearEvery {
		c.heard = now
		c.m.c.Heard()
	}
}

func (c *call) outgoing(ctx context.Context, r *http.Request) *http.Request {
	out := &http.Request{
		Method: r.Method, URL: c.url, Host: c.url.Host, Header: c.m.header(r.Header), ContentLength: r.ContentLength, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody {
		c.asked.scan.found, c.asked.atOnce = &c.asked.found, c.atOnce
		b := &body{r: r.Body, left: maxBody, asked: &c.asked, counts: c.counts}
		out.Body = b
		// A provider may close a pooled connection just before it is used again;
		// the transport then takes another if the body can still be had.
		out.GetBody = func() (io.ReadCloser, error) {
			if b.begun.Load() {
				return nil, errors.New("the request's body was sent already")
			}
			return b, nil
		}
	}
	return out.WithContext(ctx)
}

// requested is what a request says of its model.
type requested struct {
	atOnce bool

	mu    sync.Mutex // guards what follows: the transport may read on while an answer comes
	found found
	scan  scan
	bytes int64
}

// read takes more of the request, before it is sent: of one that is refused the
// end is not.
func (q *requested) read(p []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes += int64(len(p))
	q.scan.feed(p)
	switch {
	case q.atOnce && q.found.background:
		return errBackground
	case q.atOnce && q.scan.state == broken:
		return errNoJSON
	}
	return nil
}

func (q *requested) told() (model string, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.found.model, q.bytes
}

// unreadable is an error of the request's body, not of the provider.
type unreadable struct{ error }

// body is a request's, within its bounds. The HTTP server closes it.
type body struct {
	r      io.Reader
	left   int64
	asked  *requested
	counts bool
	begun  atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	b.begun.Store(true)
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, unreadable{err}
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, errLarge
	}
	if b.counts {
		if err := b.asked.read(p[:n]); err != nil {
			return 0, err
		}
	}
	return n, err
}

func (b *body) Close() error { return nil }

// respond passes the provider's answer on, and counts it.
func (c *call) respond(ctx context.Context, w http.ResponseWriter, r *http.Request, res *http.Response, watch *watch) (whole bool) {
	encoding := res.Header.Get("Content-Encoding")
	plain := encoding == "" || strings.EqualFold(encoding, "identity")
	to := io.Writer(w)
	if c.m.redactor != nil && plain && r.Method != http.MethodHead {
		veiled := c.m.redactor.Writer(w)
		defer func() {
			if whole && veiled.Close() != nil {
				whole = false
			}
		}()
		to = veiled
	}
	counted := c.counts && res.StatusCode/100 == 2
	// Without its length, a client knows of an answer's end when it is counted.
	c.copyHeader(w.Header(), res.Header, counted || to != io.Writer(w))
	if h := w.Header(); (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) && h.Get(shouldRetry) == "" {
		h.Set(shouldRetry, "false") // another try has the same key
	}
	if counted {
		m := newMeter(strings.Contains(strings.ToLower(res.Header.Get("Content-Type")), "event-stream"))
		tap, done := m.tap(encoding, plain)
		defer func() { done(); c.count(m, !whole) }()
		to = &both{tap, to}
	}
	w.WriteHeader(res.StatusCode)
	control := http.NewResponseController(w)
	if res.ContentLength < 0 && r.Method != http.MethodHead {
		_ = control.Flush() // a client that left shows below
	}
	if err := c.copyBody(to, res.Body, control, watch); err != nil {
		c.x.Err = c.broke(ctx, err)
		return false
	}
	return true
}

// both writes to the meter and to the client; what the first fails in is its
// own.
type both struct{ meter, client io.Writer }

func (b *both) Write(p []byte) (int, error) {
	_, _ = b.meter.Write(p)
	return b.client.Write(p)
}

// tap is what an answer is written to so that m reads it, and what ends that.
func (m *meter) tap(encoding string, plain bool) (io.Writer, func()) {
	if plain {
		return m, func() {}
	}
	if !strings.EqualFold(encoding, "gzip") {
		m.events = false // nothing can be read of it but its length
		return m, func() {}
	}
	u := newUnzipped(m)
	return u, func() { _ = u.Close() } // a pipe's Close does not fail
}

func (c *call) count(m *meter, cut bool) {
	asked, bytes := c.asked.told()
	c.m.c.Count(m.found.model, asked, m.tokens(c.m.anthropic, bytes, cut))
}

// copyHeader adds what is for the client, the key concealed.
func (c *call) copyHeader(to, from http.Header, unsized bool) {
	for name, values := range from {
		if proxy.IsHopByHop(name, from["Connection"]) || name == "Set-Cookie" || unsized && name == "Content-Length" {
			continue
		}
		for _, v := range values {
			if c.m.redactor != nil {
				v = c.m.redactor.Mask(v)
			}
			to.Add(name, v)
		}
	}
	for _, name := range []string{"Date", "Content-Type"} { // nothing is made up that the provider left out
		if _, ok := to[name]; !ok {
			to[name] = nil
		}
	}
}

// copyBody passes each piece on when it comes.
func (c *call) copyBody(to io.Writer, from io.Reader, control *http.ResponseController, watch *watch) error {
	buf := buffers.Get().(*[copySize]byte)
	defer buffers.Put(buf)
	for {
		n, rerr := from.Read(buf[:])
		if n > 0 {
			watch.goesOn()
			c.hear()
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
			if err := control.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return rerr
		}
	}
}

// broke is why an answer was not passed on to its end.
func (c *call) broke(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.New(c.m.reason(err))
}
