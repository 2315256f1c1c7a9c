package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// transport gives each attempt of a request a body of its own. The library
// rewinds one reader for all attempts; but a connection on which the server has
// answered early may still be reading it then, and would take bytes away from
// the next attempt.
type transport struct{ *http.Transport }

type contentKey struct{}

// withContent says what the body of the requests under the context is.
func withContent(ctx context.Context, content []byte) context.Context {
	return context.WithValue(ctx, contentKey{}, content)
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return t.Transport.RoundTrip(req)
	}
	content, ok := req.Context().Value(contentKey{}).([]byte)
	if !ok { // the library's own, such as the list of parts
		var err error
		if content, err = io.ReadAll(req.Body); err != nil {
			return nil, errors.Join(err, req.Body.Close())
		}
	}
	b := &body{content: content}
	own := req.WithContext(req.Context())
	own.Body = b
	res, err := t.Transport.RoundTrip(own)
	if err != nil {
		return nil, errors.Join(err, b.Close(), req.Body.Close())
	}
	res.Body = &answer{ReadCloser: res.Body, request: b}
	return res, req.Body.Close()
}

// body is the content of one attempt, until that is over.
type body struct {
	mu      sync.Mutex // guards what follows
	content []byte
	over    bool
}

var errOver = errors.New("the attempt is over")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return 0, errOver
	case len(b.content) == 0:
		return 0, io.EOF
	}
	n := copy(p, b.content)
	b.content = b.content[n:]
	return n, nil
}

// Close lets go of the content: nobody reads it any more when Close returns.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content, b.over = nil, true
	return nil
}

// answer ends an attempt when it is closed.
type answer struct {
	io.ReadCloser
	request *body
}

// Close implements io.Closer.
func (a *answer) Close() error { return errors.Join(a.request.Close(), a.ReadCloser.Close()) }
