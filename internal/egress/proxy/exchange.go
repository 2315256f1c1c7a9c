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

// maxURL bounds the recorded URL, in bytes.
const maxURL = 2048

// exchange is a request while it is passed on.
type exchange struct {
	s        *session
	w        http.ResponseWriter
	r        *http.Request
	rec      Exchange
	target   string // path and query as the client wrote them
	broker   *broker
	upgrade  string // the protocol that the client asks for
	crowded  bool   // the headers of requests under way are too large together
	sent     atomic.Int64
	received atomic.Int64

	mu       sync.Mutex // guards quiet and answered; held while early hints are written, by another goroutine
	quiet    bool       // the server may be writing 100 by itself, so nothing else is written
	answered bool       // no early hints any more
}

// ServeHTTP passes on a request. It panics with http.ErrAbortHandler, and
// nothing else, where an answer that has begun cannot be ended well: that is
// how the server is told to let the client see it.
func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.handlers.begin() {
		return
	}
	defer s.handlers.done()
	x := &exchange{s: s, w: w, r: r}
	x.rec = Exchange{Method: r.Method, Protocol: protocol(r), Host: policy.CanonicalHost(s.h.Host), Port: s.h.Port, Begin: s.h.Now()}
	whole := x.counted()
	x.record()
	if !whole {
		panic(http.ErrAbortHandler)
	}
}

// counted passes the request on, its headers counted as long.
func (x *exchange) counted() (whole bool) {
	if heads := x.s.h.HeaderBytes; heads != nil {
		size := headSize(x.r)
		x.crowded = heads.Add(size) > maxHeaderBytes
		defer heads.Add(-size)
	}
	return x.pass()
}

// headSize is about what the headers of a request take.
func headSize(r *http.Request) int64 {
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

// pass is false where the client was given only part of an answer.
func (x *exchange) pass() (whole bool) {
	if x.s.wire != nil {
		x.s.requests++
		// Bodies stream both ways at once. It fails for no connection of ours.
		_ = http.NewResponseController(x.w).EnableFullDuplex()
	}
	f := x.check()
	var out *http.Request
	if f == nil {
		if answer := x.local(); answer != nil {
			return x.answerHere(answer)
		}
		out, f = x.outgoing()
	}
	if f != nil {
		return x.refuse(f)
	}
	defer out.Body.Close()
	if begun := x.s.h.Begin; begun != nil {
		defer begun(x.rec)()
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
	t := x.s.up.any
	if x.upgrade != "" {
		t = x.s.up.upgrades()
	}
	ctx := httptrace.WithClientTrace(x.r.Context(), &httptrace.ClientTrace{
		GotConn:        func(i httptrace.GotConnInfo) { x.rec.Rule = ruleOf(i.Conn) }, // within RoundTrip
		Got1xxResponse: x.hint,
	})
	res, err := t.RoundTrip(out.WithContext(ctx))
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	return res, err
}

// hint passes on an answer before the answer. 100 is not: the server sends it
// when the body is read, which the transport does when it is asked to; a hint
// that comes while it does is left out.
func (x *exchange) hint(code int, header textproto.MIMEHeader) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if code == http.StatusContinue || x.quiet || x.answered || !x.r.ProtoAtLeast(1, 1) {
		return nil
	}
	x.copyHeader(http.Header(header))
	x.w.WriteHeader(code)
	clear(x.w.Header())
	return nil
}

// refuse answers instead of a server.
func (x *exchange) refuse(f *fault) bool {
	if f.method != "" {
		x.rec.Method = f.method
	}
	x.rec.Refused, x.rec.Rule = true, f.rule
	if x.rec.Err == nil {
		x.rec.Err = errors.New(f.message)
	}
	return x.answer(f.status, f.message)
}

// fail answers when the server gave no answer.
func (x *exchange) fail(err error) bool {
	if f := x.s.fault(); f != nil { // its body was no good
		return x.refuse(f)
	}
	if r, ok := refusal(err); ok {
		x.rec.Err = err
		return x.refuse(&fault{status: http.StatusForbidden, rule: r.Rule, message: r.Message})
	}
	if cause := x.cause(); cause != nil {
		x.rec.Err = cause
		return false
	}
	if x.broker != nil {
		err = x.broker.conceal().err(err)
	}
	x.rec.Err = err
	return x.answer(http.StatusBadGateway, sentence(x.rec.Host, err))
}

// fault is why the request that is being handled was refused by the wire.
func (s *session) fault() *fault {
	if s.wire == nil {
		return nil
	}
	if f := s.wire.fault.Load(); f != nil && f.request == s.requests {
		return f
	}
	return nil
}

// answer is a sentence of our own.
func (x *exchange) answer(status int, message string) bool {
	x.rec.Status = status
	body := message + "\n"
	h := x.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	if x.s.wire != nil {
		h.Set("Connection", "close") // what follows on it may not be what it seems
	}
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_, _ = io.WriteString(x.w, body) // a client that left does not need it
	}
	return true
}

func (x *exchange) record() {
	h := x.s.h
	if h.Record == nil {
		return
	}
	rec := x.rec
	rec.RequestBytes, rec.ResponseBytes = x.sent.Load(), x.received.Load()
	rec.Duration = h.Now().Sub(rec.Begin)
	h.recording.Lock()
	defer h.recording.Unlock()
	h.Record(rec)
}
