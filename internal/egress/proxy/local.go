package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// LocalHandler answers a request in this process. It is false where the client was
// given only part of an answer.
type LocalHandler func(w http.ResponseWriter, r *http.Request) (whole bool)

// local gives what answers the request here, nil where it is passed on.
func (x *exchange) local() LocalHandler {
	if x.s.h.Local == nil || x.s.h.Scheme != "http" {
		return nil
	}
	return x.s.h.Local(x.r, &x.rec)
}

// answerHere lets a request be answered in this process, and counts its bytes.
func (x *exchange) answerHere(answer LocalHandler) (whole bool) {
	if begun := x.s.h.Begin; begun != nil {
		defer begun(x.rec)()
	}
	x.r.Body = &countedBody{ReadCloser: x.r.Body, sent: &x.sent}
	w := &countedWriter{ResponseWriter: x.w, received: &x.received}
	whole = answer(w, x.r)
	x.rec.Status = w.status
	if cause := context.Cause(x.s.above); cause != nil && !whole {
		x.rec.Err = cause // of which the answer may not have heard when it met its closed connection
	}
	if f := x.s.fault(); f != nil {
		x.rec.Refused, x.rec.Rule, x.rec.Err = true, f.rule, errors.New(f.message)
	}
	return whole
}

// countedBody is a client's body, counted as it is read.
type countedBody struct {
	io.ReadCloser
	sent *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sent.Add(int64(n))
	return n, err
}

// countedWriter is an answer of this process, counted as it is written.
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

// Flush sends what was written so far.
func (w *countedWriter) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // what fails shows when more is written
}

// Unwrap lets http.ResponseController find the rest.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
