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

// Fault is a fault that Proxy injects into a request.
type Fault int

// The faults that Proxy can inject.
const (
	None    Fault = iota
	Refuse        // the response is 503; the server does not see the request
	Drop          // the connection breaks; the server does not see the request
	Half          // the connection breaks in the middle of the request body
	Lose          // the server executes the request; the connection breaks before the response
	Cut           // the connection breaks in the middle of the response body
	Flip          // one bit of the request body is flipped
	Silence       // there is no response until the client gives up; the server does not see the request
	Stall         // half of the response body arrives, then nothing until the client gives up
	Deny          // the response is 403; the server does not see the request
	Accept        // the response reports success; the server does not see the request
)

// Proxy forwards requests to a Server and injects faults. Its methods are safe
// for concurrent use.
type Proxy struct {
	server *Server
	front  *httptest.Server

	mu     sync.Mutex // guards the fields below
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

// URL returns the URL of a bucket, which need not exist, with the options that the
// server requires.
func (p *Proxy) URL(bucket string) string {
	return "s3://" + bucket + "?path_style=true&region=" + region + "&endpoint=" + p.front.URL
}

// Break makes decide choose the fault of each further request; nil removes faults.
// call is the number of the request since Break, from 1. Calls of decide are serialized.
func (p *Proxy) Break(decide func(call int, r *http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.calls = decide, 0
}

// Calls returns the number of requests since Break.
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

// ServeHTTP implements http.Handler. It panics to break a connection, as
// net/http documents.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.fault(r)
	switch f {
	case Refuse:
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	case Drop:
		panic(http.ErrAbortHandler)
	case Silence:
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices the end of the connection only after the body was read
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
	respond(w, res, f)
}

func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "gateway", ""
	if out.ContentLength == 0 {
		out.Body = nil
	}
	return p.server.gateway.RoundTrip(out)
}

func respond(w http.ResponseWriter, res *http.Response, f Fault) {
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

// flipped is a reader of r that flips one bit of the byte at the offset at.
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
