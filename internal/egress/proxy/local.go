package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// LocalHandler serves a request in this process. It returns false if the client
// received only a part of the response.
type LocalHandler func(w http.ResponseWriter, r *http.Request) (complete bool)

// localHandler returns the handler if the request is served in this process. It
// returns nil if the request is forwarded.
func (x *exchange) localHandler() LocalHandler {
	if x.conn.h.Local == nil || x.conn.h.Scheme != "http" {
		return nil
	}
	return x.conn.h.Local(x.r, &x.record)
}

// serveLocal calls the handler and counts the bytes of the request's and the response's
// body.
func (x *exchange) serveLocal(handle LocalHandler) (complete bool) {
	x.record.URL = clip(x.record.URL) // Local may have changed it
	if begin := x.conn.h.Begin; begin != nil {
		defer begin(x.record)()
	}
	x.r.Body = &countedBody{x.r.Body, &x.sent}
	w := &countedWriter{ResponseWriter: x.w, received: &x.received}
	complete = handle(w, x.r)
	x.record.Status = w.status
	if cause := context.Cause(x.conn.parent); cause != nil && !complete {
		x.record.Err = cause // more specific than the handler's error, which may only report a closed connection
	}
	if f := x.conn.fault(); f != nil {
		x.record.Refused, x.record.Rule, x.record.Err = true, f.rule, errors.New(f.message)
	}
	return complete
}

// countedBody counts the bytes of a request's body.
type countedBody struct {
	io.ReadCloser
	sent *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sent.Add(int64(n))
	return n, err
}

// countedWriter counts the bytes of a local response.
type countedWriter struct {
	http.ResponseWriter
	received *atomic.Int64
	status   int
}

func (w *countedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countedWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.received.Add(int64(n))
	return n, err
}

// Flush implements http.Flusher.
func (w *countedWriter) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a later Write reports the error
}

// Unwrap returns the underlying writer for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
