package proxy

import (
	"errors"
	"io"
	"net"
)

// ReadStrict passes in through a strict reader. It returns the bytes for net/http,
// the number of requests, and whether the last of them was refused for its head
// and for its body.
func ReadStrict(in io.Reader) (passed []byte, requests int, head, body bool) {
	r := newStrictReader(&readOnly{Reader: in})
	passed, err := io.ReadAll(r)
	return passed, r.requests, r.fault.Load() != nil && err == nil, errors.Is(err, errChunk)
}

// EmptyRequest is the request that net/http receives instead of a refused one.
var EmptyRequest = emptyRequest

type readOnly struct {
	net.Conn
	io.Reader
}

func (r *readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }
