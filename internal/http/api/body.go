package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// patientBody is a body that gives up on a client which stops sending.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
}

// patient is a request whose body must come, whoever reads it: what handlers
// leave over, net/http reads before it answers, and takes the deadline away at
// the end. It is a copy, since net/http looks at the body that it made.
func (a *api) patient(w http.ResponseWriter, r *http.Request) *http.Request {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(a.c.BodyTimeout))
	r = r.WithContext(r.Context())
	r.Body = &patientBody{r.Body, control, a.c.BodyTimeout}
	return r
}

func (b *patientBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.timeout))
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) { // after anything else net/http reads on
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
