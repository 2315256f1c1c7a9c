package proxy

import (
	"errors"
	"io"
	"net"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// Conceal gives a writer that conceals the secrets' values in what it passes
// on to w.
func Conceal(secrets []policy.Secret, w io.Writer) io.WriteCloser {
	return &concealed{c: newConcealer(secrets), w: w}
}

// Spellings gives what is looked for and what stands for it, longest first.
func Spellings(secrets []policy.Secret) (pairs [][2]string) {
	for _, p := range newConcealer(secrets).pairs {
		pairs = append(pairs, [2]string{p.from, p.to})
	}
	return pairs
}

// ReadWire reads in as a client's requests: what the HTTP server would be
// given, how many requests were found in it, and whether the last of them was
// refused for its head and for its body.
func ReadWire(in io.Reader) (given []byte, requests int, head, body bool) {
	w := newWire(&readOnly{Reader: in})
	given, err := io.ReadAll(w)
	return given, w.heads, w.fault.Load() != nil && err == nil, errors.Is(err, errChunk)
}

// StandIn is what the HTTP server is given for a request that is refused.
var StandIn = standIn

type readOnly struct {
	net.Conn
	io.Reader
}

func (r *readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }
