package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// body is the body of a request. Its reads fail if the client stops sending.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
}

// withBodyDeadline returns a copy of the request with a read deadline, which each
// read of the body extends. net/http reads what the handler leaves, and needs the
// body that it created; therefore the request is copied.
func (a *api) withBodyDeadline(w http.ResponseWriter, r *http.Request) *http.Request {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(a.c.BodyTimeout))
	r = r.WithContext(r.Context())
	r.Body = &body{r.Body, control, a.c.BodyTimeout}
	return r
}

func (b *body) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.timeout))
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) { // after other errors, net/http reads the rest
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// responseWriter records the status of a response and limits the time that the
// client has to read each part of it.
type responseWriter struct {
	http.ResponseWriter
	status  int
	timeout time.Duration
}

// maxPart is the number of bytes that are written with one deadline.
const maxPart = 1 << 20

func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.extendDeadline()
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	done := 0
	for {
		w.extendDeadline()
		n, err := w.ResponseWriter.Write(p[done:min(len(p), done+maxPart)])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// extendDeadline sets the deadline of the next write. An error means that the
// response is not written to a connection.
func (w *responseWriter) extendDeadline() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout))
}

// Unwrap returns the underlying writer for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
