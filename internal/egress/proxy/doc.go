// Package proxy forwards the HTTP requests of a sandbox.
//
// A Handler serves one connection of a sandbox. It supports HTTP/1.1 and HTTP/2
// with the client, and independently of that with the server. Bodies are streamed
// unchanged in both directions at once, without a size limit, as are trailers,
// early hints, and the bytes after an upgrade.
//
// # Hosts
//
// The policy is the Dial function; this package ensures that Dial gets the host
// that the request is for. Within TLS this is the host of the certificate: a
// request for another host is answered with 421. For cleartext requests Dial is
// called with the host that the request names.
//
// A request that two parsers could interpret differently is answered with 400,
// and the connection is closed: several lengths, a length and a transfer
// encoding, several hosts, folded lines, line ends without CR, and names and
// values with invalid characters.
//
// # Secrets
//
// A placeholder in the value of a header, in the base64 of Basic authorization,
// or in the query is replaced by the secret's value: with https for the secret's
// hosts, and with http for stint.HostAlias, because that traffic stays on this machine.
// Paths, bodies, trailers, and WebSocket messages are not changed.
//
// A redactor removes the value from responses of such a host: from headers,
// trailers, and the body, also if the value is encoded or split across packets;
// package masking lists the encodings. The redactor does not find values of less
// than four bytes, values in compressed bodies (a request with a secret asks for
// an uncompressed response), in parts (ranges, separate requests), or
// transformed, and values in messages after an upgrade. Hosts that receive a
// secret are trusted not to send it that way. A redacted body has no
// Content-Length, and its last bytes are delayed while they could be the
// beginning of a value.
//
// # Differences from a direct connection
//
// A client that closes its half of an HTTP/1 connection before the response is
// treated as gone. The expectation of 100-continue is forwarded for HTTP/1
// clients; HTTP/2 clients receive 100 when the server reads the body.
package proxy

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/egress/policy"
)

// Exchange describes one request at its end.
type Exchange struct {
	Method        string
	URL           string // as the client sent it, with placeholders; at most 2,048 bytes
	Host          string // lower case
	Protocol      string // "http/1.0", "http/1.1", "h2", or the protocol after an upgrade: "websocket"
	Port          uint16
	Status        int   // that the client received; 0 if it left before
	RequestBytes  int64 // of the body
	ResponseBytes int64 // of the body as the server sent it
	Begin         time.Time
	Duration      time.Duration
	Refused       bool   // by the policy or by this package, and not forwarded
	Rule          string // that allowed or refused it
	Err           error  // without secrets
}

// Handler forwards the requests of connections. Its fields are not changed after
// the first call of Serve. It may serve several connections at once; connections
// to servers are shared within one client connection only.
type Handler struct {
	Scheme string // of the client's requests: "http" or "https"
	Host   string // that the connection was opened for: a name, or an address
	Port   uint16

	// Dial applies the policy and returns a TCP connection to a checked address,
	// and the rule that allowed it. The error of a refused host is a
	// policy.Refusal, which is answered with 403. It is called concurrently.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, string, error)

	Roots   *x509.CertPool // of servers; the default is the system's
	Secrets []policy.Secret
	// Redactors, if not nil, caches the redactors of Secrets between handlers.
	Redactors *Redactors

	// Record, if not nil, is called at the end of each request, from several
	// goroutines but one at a time.
	Record func(Exchange)
	// Begin, if not nil, is called before a request is forwarded. The returned
	// function is called at its end, before Record. Begin is called concurrently.
	Begin func(Exchange) (end func())

	// Local, if not nil, returns the handler of a cleartext request that is served
	// in this process, or nil. It and the handler may change the Exchange until the
	// handler returns. Local is called concurrently.
	Local func(*http.Request, *Exchange) LocalHandler

	// HeaderBytes, if not nil, counts the bytes of the headers of requests in
	// progress. It may be shared by handlers; beyond 64 MiB requests are refused.
	HeaderBytes *atomic.Int64

	Now   func() time.Time
	Proxy bool // accept absolute-form requests (explicit proxy); their URL names the host

	recording sync.Mutex // held while Record runs
}
