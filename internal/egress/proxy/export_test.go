package proxy

import (
	"errors"
	"io"
	"net"
)

// ReadStrict reads all requests of the reader in through a strictReader. It returns the
// bytes that net/http receives, the number of requests, and whether the last request
// was refused because of its head or because of its body.
func ReadStrict(in io.Reader) (passed []byte, requests int, head, body bool) {
	r := newStrictReader(&readOnly{Reader: in})
	passed, err := io.ReadAll(r)
	return passed, r.requests, r.fault.Load() != nil && err == nil, errors.Is(err, errChunk)
}

// EmptyRequest is the request that net/http receives instead of a refused one.
var EmptyRequest = emptyRequest

// readOnly is a net.Conn that supports only Read.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r *readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }
