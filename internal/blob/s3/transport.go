package s3

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// transport stops reading a request's body at the end of each attempt. The library
// rewinds the same reader for the next attempt. If the server responded before it had
// read the whole body, the connection of the previous attempt could otherwise read on
// and take bytes from the next attempt.
type transport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return t.Transport.RoundTrip(req)
	}
	b := &attemptBody{r: req.Body}
	attempt := req.WithContext(req.Context())
	attempt.Body = b
	res, err := t.Transport.RoundTrip(attempt)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	res.Body = &attemptResponse{ReadCloser: res.Body, request: b}
	return res, nil
}

// attemptBody is the body of a request for one attempt. It cannot be read after the end
// of the attempt.
type attemptBody struct {
	mu sync.Mutex    // guards r
	r  io.ReadCloser // nil after Close
}

var errAttemptEnded = errors.New("the attempt has ended")

// Read implements io.Reader.
func (b *attemptBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r == nil {
		return 0, errAttemptEnded
	}
	return b.r.Read(p)
}

// Close implements io.Closer. It waits for a Read in progress; later ones fail.
func (b *attemptBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r == nil {
		return nil
	}
	err := b.r.Close()
	b.r = nil
	return err
}

// attemptResponse ends an attempt when the response is closed.
type attemptResponse struct {
	io.ReadCloser
	request *attemptBody
}

// Close implements io.Closer.
func (a *attemptResponse) Close() error { return errors.Join(a.request.Close(), a.ReadCloser.Close()) }
