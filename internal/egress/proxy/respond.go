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

// respond passes the server's answer on to the client.
func (x *exchange) respond(res *http.Response) (whole bool) {
	h := x.w.Header()
	x.copyHeader(res.Header)
	for _, name := range []string{"Date", "Content-Type"} { // nothing is made up that the server left out
		if _, ok := h[name]; !ok {
			h[name] = nil
		}
	}
	conceal := x.concealsBody(res)
	if conceal || len(res.Trailer) > 0 { // only HTTP/2 has trailers after a known length
		delete(h, "Content-Length")
	}
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	announced := len(res.Trailer)
	x.rec.Status = res.StatusCode
	x.w.WriteHeader(res.StatusCode)
	control := http.NewResponseController(x.w)
	if res.ContentLength < 0 && x.r.Method != http.MethodHead {
		_ = control.Flush() // a stream's headers do not wait for its first byte; a client that left shows below
	}
	if err := x.copyBody(res.Body, control, conceal); err != nil {
		x.rec.Err = x.ended(err)
		return false
	}
	x.copyTrailer(res.Trailer, announced, control)
	return true
}

// concealsBody tells whether values are looked for in the body.
func (x *exchange) concealsBody(res *http.Response) bool {
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

// copyHeader adds what is for the client, values concealed.
func (x *exchange) copyHeader(from http.Header) {
	to := x.w.Header()
	for name, values := range from {
		if !hopByHop(name, from["Connection"]) {
			to[name] = x.concealed(values)
		}
	}
}

func (x *exchange) concealed(values []string) []string {
	if x.broker == nil {
		return values
	}
	c := x.broker.conceal()
	for i, v := range values {
		values[i] = c.text(v) // the transport made them for us
	}
	return values
}

// copyBody passes each piece on when it comes.
func (x *exchange) copyBody(body io.Reader, control *http.ResponseController, conceal bool) error {
	to := io.Writer(x.w)
	var stream *concealed
	if conceal {
		stream = &concealed{c: x.broker.conceal(), w: x.w}
		to = stream
	}
	buf := buffers.Get().(*[copySize]byte)
	defer buffers.Put(buf)
	for {
		n, rerr := body.Read(buf[:])
		if n > 0 {
			x.received.Add(int64(n))
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
			if rerr == nil {
				if err := control.Flush(); err != nil {
					return err
				}
			}
		}
		switch {
		case rerr == io.EOF && stream != nil:
			return stream.Close()
		case rerr == io.EOF:
			return nil
		case rerr != nil:
			return rerr
		}
	}
}

// copyTrailer passes on what came after the body.
func (x *exchange) copyTrailer(trailer http.Header, announced int, control *http.ResponseController) {
	if len(trailer) == 0 {
		return
	}
	_ = control.Flush() // so that there is a body to follow even if it is empty
	prefix := ""
	if len(trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, values := range trailer {
		x.w.Header()[prefix+name] = x.concealed(values)
	}
}

// ended tells why a copy ended: for the client's leaving and the session's end
// the cause, else what was met, without values.
func (x *exchange) ended(err error) error {
	if f := x.s.fault(); f != nil {
		x.rec.Refused, x.rec.Rule = true, f.rule
		return errors.New(f.message)
	}
	if cause := x.cause(); cause != nil {
		return cause
	}
	if x.broker != nil {
		return x.broker.conceal().err(err)
	}
	return err
}

// cause tells why the exchange is to end, nil while it may go on. What ends the
// session is asked first: a context tells its descendants and closes
// connections in any order, so a closed connection may be met before the
// request's context has heard of it.
func (x *exchange) cause() error {
	if cause := context.Cause(x.s.above); cause != nil {
		return cause
	}
	return context.Cause(x.r.Context())
}
