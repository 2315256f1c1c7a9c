package s3test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Fault is what happens to a request.
type Fault int

// The faults.
const (
	None    Fault = iota
	Refuse        // it is answered 503 and does not reach the server
	Drop          // the connection breaks before it reaches the server
	Half          // the connection breaks in the middle of its body
	Lose          // the server does it, the connection breaks before the answer
	Cut           // the connection breaks in the middle of the answer's body
	Flip          // one bit of its body is another on the way
	Silence       // it reaches nobody, and nothing is answered until the client gives up
	Stall         // nothing follows the first half of the answer's body until the client gives up
	Deny          // it is answered 403 and does not reach the server
	Accept        // it is answered as if the server had done it, and does not reach the server
)

// Proxy is a way to a Server: it hands requests on and breaks some. Its methods
// are safe for concurrent use.
type Proxy struct {
	server *Server
	front  *httptest.Server

	mu     sync.Mutex // guards what follows
	decide func(call int, r *http.Request) Fault
	calls  int
}

func newProxy(s *Server) *Proxy {
	p := &Proxy{server: s}
	p.front = httptest.NewServer(p)
	return p
}

func (p *Proxy) close() {
	p.front.CloseClientConnections()
	p.front.Close()
}

// URL is that of a bucket which may not exist, with the endpoint, the region and
// the style of naming that the server wants.
func (p *Proxy) URL(bucket string) string {
	return "s3://" + bucket + "?path_style=true&region=" + region + "&endpoint=" + p.front.URL
}

// Break makes decide say what happens to each request from now on; nil is
// nothing. call counts from 1. decide is called by one goroutine at a time.
func (p *Proxy) Break(decide func(call int, r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.calls = decide, 0
}

// Calls is how many requests there were since Break.
func (p *Proxy) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *Proxy) fault(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.decide == nil {
		return None
	}
	return p.decide(p.calls, r)
}

// ServeHTTP implements http.Handler. It panics to break a connection, as the
// standard library wants it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.fault(r)
	switch f {
	case Refuse:
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	case Drop:
		panic(http.ErrAbortHandler)
	case Silence:
		_, _ = io.Copy(io.Discard, r.Body) // so that the client's leaving is noticed
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Deny:
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
		return
	case Accept:
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"0"`)
		_, _ = io.WriteString(w, "<CompleteMultipartUploadResult><Bucket>bucket</Bucket></CompleteMultipartUploadResult>")
		return
	case Half:
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, r.ContentLength/2), broken{}))
	case Flip:
		r.Body = io.NopCloser(&flipped{r: r.Body, at: r.ContentLength / 2})
	}
	res, err := p.forward(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer res.Body.Close()
	p.answer(w, res, f)
}

func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "gateway", ""
	if out.ContentLength == 0 {
		out.Body = nil
	}
	return p.server.gateway.RoundTrip(out)
}

func (p *Proxy) answer(w http.ResponseWriter, res *http.Response, f Fault) {
	length := res.ContentLength
	if f == Lose {
		_, _ = io.Copy(io.Discard, res.Body)
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	if f == Cut || f == Stall {
		_, _ = io.CopyN(w, res.Body, max(length, 2)/2)
		_ = http.NewResponseController(w).Flush()
		if f == Stall {
			<-res.Request.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
	if _, err := io.Copy(w, res.Body); err != nil && !strings.EqualFold(res.Request.Method, http.MethodHead) {
		panic(http.ErrAbortHandler)
	}
}

var errBroken = errors.New("the connection broke")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// flipped changes a bit of the byte at a position.
type flipped struct {
	r  io.Reader
	at int64
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if f.at >= 0 && f.at < int64(n) {
		p[f.at] ^= 1
	}
	f.at -= int64(n)
	return n, err
}
