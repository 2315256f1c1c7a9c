package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// body is the body of a request. A read fails if the client sends no data for the
// duration timeout.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
}

// withBodyDeadline sets a read deadline and returns a copy of the request, in which
// each read of the body extends the deadline. The original request keeps its body,
// because net/http reads the rest of that body after the handler has returned.
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
	if errors.Is(err, io.EOF) { // after other errors the deadline stays set for net/http, which reads the rest
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// responseWriter records the status of a response. It limits the time in which the
// client must read each part of the response.
type responseWriter struct {
	http.ResponseWriter
	status  int
	timeout time.Duration
}

// maxPart is the maximum number of bytes that are written with one deadline.
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

// extendDeadline sets the deadline of the next write. It ignores errors, because
// they only mean that the response is not written to a connection.
func (w *responseWriter) extendDeadline() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout))
}

// Unwrap returns the underlying writer for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
