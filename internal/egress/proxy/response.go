package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

const copySize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// respond forwards the server's response to the client. If the client received only part
// of the response, respond returns false.
func (x *exchange) respond(res *http.Response) (complete bool) {
	h := x.w.Header()
	x.copyHeader(res.Header)
	for _, name := range []string{"Date", "Content-Type"} { // keeps net/http from adding a header that the server omitted
		if _, ok := h[name]; !ok {
			h[name] = nil
		}
	}
	redacted := x.redactsBody(res)
	if redacted || len(res.Trailer) > 0 { // only HTTP/2 has trailers after a known length
		delete(h, "Content-Length")
	}
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	announced := len(res.Trailer)
	x.record.Status = res.StatusCode
	x.w.WriteHeader(res.StatusCode)
	control := http.NewResponseController(x.w)
	if res.ContentLength < 0 && x.r.Method != http.MethodHead {
		_ = control.Flush() // send the headers of a stream at once; after an error, the copy below fails too
	}
	if err := x.copyBody(res.Body, control, redacted); err != nil {
		x.record.Err = x.endError(err)
		return false
	}
	x.copyTrailer(res.Trailer, announced, control)
	return true
}

// redactsBody reports whether secrets must be redacted in the response's body. Compressed
// bodies are not redacted.
func (x *exchange) redactsBody(res *http.Response) bool {
	if x.broker == nil || x.r.Method == http.MethodHead || res.ContentLength == 0 || res.StatusCode == http.StatusNotModified {
		return false
	}
	for _, v := range res.Header["Content-Encoding"] {
		if v != "" && !strings.EqualFold(v, "identity") {
			return false
		}
	}
	return true
}

// copyHeader copies the headers of a response for the client, with redacted values and
// without hop-by-hop headers.
func (x *exchange) copyHeader(from http.Header) {
	to := x.w.Header()
	for name, values := range from {
		if !IsHopByHop(name, from["Connection"]) {
			to[name] = x.redact(values)
		}
	}
}

// redact redacts secrets in values and returns values. It changes the slice, which
// belongs only to this exchange.
func (x *exchange) redact(values []string) []string {
	if x.broker == nil {
		return values
	}
	r := x.broker.redactor()
	for i, v := range values {
		values[i] = r.Mask(v)
	}
	return values
}

// copyBody forwards the response's body to the client and redacts it if redacted is set.
func (x *exchange) copyBody(body io.Reader, control *http.ResponseController, redacted bool) error {
	received := func(n int) { x.received.Add(int64(n)) }
	if !redacted {
		return CopyBody(x.w, body, control, received)
	}
	redactor := x.broker.redactor().Writer(x.w)
	if err := CopyBody(redactor, body, control, received); err != nil {
		return err
	}
	return redactor.Close()
}

// CopyBody copies a response's body to a client and flushes each piece as soon as it
// arrives. It calls received with the length of each piece in bytes. It returns the first
// error of reading, writing, or flushing.
func CopyBody(to io.Writer, body io.Reader, control *http.ResponseController, received func(int)) error {
	buf := buffers.Get().(*[copySize]byte)
	defer buffers.Put(buf)
	for {
		n, rerr := body.Read(buf[:])
		if n > 0 {
			received(n)
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return rerr
		}
		if err := control.Flush(); err != nil {
			return err
		}
	}
}

// copyTrailer forwards the trailers of a response. announced is the number of trailers
// that the headers announced.
func (x *exchange) copyTrailer(trailer http.Header, announced int, control *http.ResponseController) {
	if len(trailer) == 0 {
		return
	}
	_ = control.Flush() // begins the body, because trailers need a body, even if it is empty
	prefix := ""
	if len(trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, values := range trailer {
		x.w.Header()[prefix+name] = x.redact(values)
	}
}

// endError returns the error to record for a copy that failed with err. If the request's
// body was malformed, this is the fault. If the client or the connection has ended, it is
// the cause. Otherwise it is err without secrets.
func (x *exchange) endError(err error) error {
	if f := x.conn.fault(); f != nil {
		x.record.Refused, x.record.Rule = true, f.rule
		return errors.New(f.message)
	}
	if cause := x.cause(); cause != nil {
		return cause
	}
	if x.broker != nil {
		return x.broker.redactor().MaskError(err)
	}
	return err
}

// cause returns the cause for which the exchange must end, or nil. It checks the context
// of the connection first: when this context ends, the connections are closed, and
// net/http may cancel the request's context with another cause.
func (x *exchange) cause() error {
	if cause := context.Cause(x.conn.parent); cause != nil {
		return cause
	}
	return context.Cause(x.r.Context())
}
