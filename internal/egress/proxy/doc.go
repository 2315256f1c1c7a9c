// Package proxy forwards the HTTP requests of a sandbox.
//
// A Handler serves connections of a sandbox. It supports HTTP/1 and, within TLS, HTTP/2
// with the client, and independently of that with the server. Bodies are streamed in both
// directions at the same time, without a size limit. Trailers, early hints, and the
// bytes after an upgrade are forwarded as well.
//
// # Hosts
//
// The function Dial applies the policy. This package ensures that Dial gets the host
// to which the request is sent. Within TLS this is the host of the certificate; a
// request for another host is answered with 421. For a cleartext request, this is the
// host in the request.
//
// If two parsers could interpret a request differently, the request is answered with
// 400, and an HTTP/1 connection is closed. This applies to requests with several lengths, a
// length and a transfer encoding, several hosts, folded lines, line ends without CR,
// or names and values with invalid characters.
//
// # Secrets
//
// A placeholder in the value of a header, in the base64 text of Basic authorization,
// or in the query is replaced by the secret's value, if the request is sent to one of
// the secret's hosts. The request must use https; only for stint.HostAlias it may use
// http, because that traffic stays on this machine. Paths, bodies, trailers, and
// WebSocket messages are not changed.
//
// A redactor replaces the value by the placeholder in responses of such a host: in
// headers, trailers, and the body, also if the value is encoded or split across
// packets; package masking lists the encodings. The redactor does not find values of
// less than four bytes, values of less than eight bytes in base64, values in compressed
// bodies (a request with a secret asks for an uncompressed response), values that are
// sent in parts (ranges, separate requests) or transformed, and values in messages after
// an upgrade. Hosts that receive a secret are trusted not to return it in such a form. A
// redacted body has no Content-Length. If its last bytes could be the beginning of a
// value, they are delayed.
//
// # Differences from a direct connection
//
// If a client closes its sending direction of an HTTP/1 connection before the
// response, the connection is treated as closed. The expectation of 100-continue is
// forwarded for HTTP/1 clients; HTTP/2 clients receive 100 when the proxy reads the
// body.
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

// Exchange describes a request and its response.
type Exchange struct {
	Method        string
	URL           string // as the client sent it, with placeholders; at most 2,048 bytes
	Host          string // lower case
	Protocol      string // "http/1.0", "http/1.1", "h2", or the protocol after an upgrade: "websocket"
	Port          uint16
	Status        int   // status that the client received; 0 for none
	RequestBytes  int64 // bytes of the request body
	ResponseBytes int64 // bytes of the response body as the server sent it
	Begin         time.Time
	Duration      time.Duration
	Refused       bool     // the policy or this package refused the request
	Rule          string   // rule that allowed or refused the request
	Secrets       []string // names of the secrets that were sent, sorted
	Err           error    // error without secrets; nil for none
}

// Handler forwards the requests of connections. Its fields must not be changed after the
// first call of Serve. It may serve several connections at the same time. Connections to
// servers are shared only by the requests of one client connection.
type Handler struct {
	Scheme string // scheme of the client's requests: "http" or "https"
	Host   string // name or address that the connection was opened for
	Port   uint16

	// Dial connects to an address that the policy allows. It returns the TCP
	// connection and the rule that allowed it. If the policy refuses the host, the
	// error is a policy.Refusal, and the client receives 403. Dial is called
	// concurrently.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, string, error)

	Roots   *x509.CertPool // trusted roots for servers; nil means the system's roots
	Secrets []policy.Secret
	// Redactors, if not nil, caches the redactors of Secrets between handlers.
	Redactors *Redactors

	// Record, if not nil, is called at the end of each request. The calls come from
	// several goroutines, but do not overlap.
	Record func(Exchange)
	// Begin, if not nil, is called before a request is forwarded. The returned
	// function is called at the end of the request, before Record. Begin is called
	// concurrently.
	Begin func(Exchange) (end func())

	// Local, if not nil, returns the handler of a cleartext request that is served in
	// this process. For other requests it returns nil. Local and the handler may
	// change the Exchange until the handler returns. Local is called concurrently.
	Local func(*http.Request, *Exchange) LocalHandler

	// HeaderBytes, if not nil, counts the bytes of the headers of all requests in
	// progress. Several handlers may share it. If the headers of a new request raise
	// it above 64 MiB, the request is refused.
	HeaderBytes *atomic.Int64

	Now   func() time.Time
	Proxy bool // act as an explicit proxy: accept requests with absolute URLs, which contain the host

	recording sync.Mutex // held while Record runs
}
