package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// maxURL is the maximum length of a logged URL in bytes.
const maxURL = 2048

// exchange is a request that is being forwarded.
type exchange struct {
	conn     *clientConn
	w        http.ResponseWriter
	r        *http.Request
	record   Exchange
	target   string // path and query as the client sent them
	broker   *broker
	inserted []string // names of the secrets in the outgoing request, sorted
	upgrade  string   // the protocol that the client requests
	overload bool     // the headers of all requests in progress are too large
	sent     atomic.Int64
	received atomic.Int64

	mu       sync.Mutex // guards reading and answered; held while hint writes
	reading  bool       // net/http may be writing 100 Continue, so hints are dropped
	answered bool       // the response has begun
}

// ServeHTTP forwards a request. If the response is incomplete, it panics with
// http.ErrAbortHandler, so that net/http closes the connection or the stream.
func (s *clientConn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.handlers.begin() {
		return
	}
	defer s.handlers.done()
	x := &exchange{conn: s, w: w, r: r}
	x.record = Exchange{Method: r.Method, Protocol: protocol(r), Host: policy.CanonicalHost(s.h.Host), Port: s.h.Port, Begin: s.h.Now()}
	complete := x.serve()
	x.finish()
	if !complete {
		panic(http.ErrAbortHandler)
	}
}

// serve forwards the request. Until it returns, the request's headers are counted in
// HeaderBytes. If the response is incomplete, serve returns false.
func (x *exchange) serve() (complete bool) {
	if heads := x.conn.h.HeaderBytes; heads != nil {
		size := headerSize(x.r)
		x.overload = heads.Add(size) > maxHeaderBytes
		defer heads.Add(-size)
	}
	return x.forward()
}

// headerSize estimates the memory of a request's headers.
func headerSize(r *http.Request) int64 {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + 32
		}
	}
	return int64(size)
}

func protocol(r *http.Request) string {
	switch {
	case r.ProtoMajor == 2:
		return "h2"
	case r.ProtoAtLeast(1, 1):
		return "http/1.1"
	}
	return "http/1.0"
}

// forward forwards or refuses the request. If the client did not receive a complete
// response, forward returns false.
func (x *exchange) forward() (complete bool) {
	if x.conn.reader != nil {
		x.conn.requests++
		// Bodies are streamed in both directions at once. This cannot fail here.
		_ = http.NewResponseController(x.w).EnableFullDuplex()
	}
	f := x.check()
	var out *http.Request
	if f == nil {
		if h := x.localHandler(); h != nil {
			return x.serveLocal(h)
		}
		out, f = x.outgoing()
	}
	if f != nil {
		return x.refuse(f)
	}
	defer out.Body.Close()
	if begin := x.conn.h.Begin; begin != nil {
		defer begin(x.record)()
	}
	res, err := x.roundTrip(out)
	if err != nil {
		return x.fail(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return x.switchProtocols(res)
	}
	return x.respond(res)
}

func (x *exchange) roundTrip(out *http.Request) (*http.Response, error) {
	t := x.conn.up.any
	if x.upgrade != "" {
		t = x.conn.up.upgrades()
	}
	ctx := httptrace.WithClientTrace(x.r.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { // called within RoundTrip
			x.record.Rule, x.record.Secrets = ruleOf(i.Conn), x.inserted
		},
		Got1xxResponse: x.hint,
	})
	res, err := t.RoundTrip(out.WithContext(ctx))
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	return res, err
}

// hint forwards an informational (1xx) response, except 100 Continue: net/http writes
// 100 Continue when the body is read. A response that arrives during that read is dropped,
// and so is a response that arrives after the final response or for HTTP/1.0.
func (x *exchange) hint(code int, header textproto.MIMEHeader) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if code == http.StatusContinue || x.reading || x.answered || !x.r.ProtoAtLeast(1, 1) {
		return nil
	}
	x.copyHeader(http.Header(header))
	x.w.WriteHeader(code)
	clear(x.w.Header())
	return nil
}

// refuse writes an error response to a request that is not forwarded.
func (x *exchange) refuse(f *fault) bool {
	if f.method != "" {
		x.record.Method = f.method
	}
	x.record.Refused, x.record.Rule = true, f.rule
	if x.record.Err == nil {
		x.record.Err = errors.New(f.message)
	}
	return x.answer(f.status, f.message)
}

// fail writes an error response because the server sent no response. If the exchange has
// been cancelled, it writes nothing and returns false.
func (x *exchange) fail(err error) bool {
	if f := x.conn.fault(); f != nil { // the request's body is malformed
		return x.refuse(f)
	}
	if r, ok := asRefusal(err); ok {
		x.record.Err = err
		return x.refuse(&fault{status: http.StatusForbidden, rule: r.Rule, message: r.Message})
	}
	if cause := x.cause(); cause != nil {
		x.record.Err = cause
		return false
	}
	if x.broker != nil {
		err = x.broker.redactor().MaskError(err)
	}
	x.record.Err = err
	return x.answer(http.StatusBadGateway, failureMessage(x.record.Host, err))
}

// fault returns the reason for which the strictReader refused the current request, or
// nil if it did not refuse the request.
func (s *clientConn) fault() *fault {
	if s.reader == nil {
		return nil
	}
	if f := s.reader.fault.Load(); f != nil && f.request == s.requests {
		return f
	}
	return nil
}

// answer writes a response that contains a message of the proxy.
func (x *exchange) answer(status int, message string) bool {
	x.record.Status = status
	body := message + "\n"
	h := x.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	if x.conn.reader != nil {
		h.Set("Connection", "close") // bytes after a refused request could be misinterpreted
	}
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = io.WriteString(x.w, body) // the client may have closed the connection
	}
	return true
}

// finish completes the Exchange and passes it to Record.
func (x *exchange) finish() {
	h := x.conn.h
	if h.Record == nil {
		return
	}
	rec := x.record
	rec.RequestBytes, rec.ResponseBytes = x.sent.Load(), x.received.Load()
	rec.Duration = h.Now().Sub(rec.Begin)
	h.recording.Lock()
	defer h.recording.Unlock()
	h.Record(rec)
}
