// Package proxy answers: how is an HTTP request passed on?
//
// A Handler is given one connection of a sandbox and speaks HTTP on both
// sides: HTTP/1.1 or HTTP/2 with the client, whatever the server offers with
// the server. Bodies pass as they are and as they come, in both directions at
// once and without bound; so do trailers, early hints and, after an upgrade,
// raw bytes.
//
// # Hosts
//
// The policy is the Dial function; this package sees that it is asked about
// the host that the request is really for. Within TLS that is the host whose
// certificate was shown: a request for another is answered 421. In cleartext
// Dial is asked again for the host that the request names.
//
// A request that two readers could understand differently is answered 400 and
// the connection closed: several lengths, a length beside an encoding, several
// hosts, folded lines, line ends without CR, names and values with characters
// that do not belong there.
//
// # Secrets
//
// A placeholder in a value of a header, also within the base64 of Basic
// authorization, or in the query is replaced by the secret's value, in https
// toward the secret's hosts and in http toward InternalHost, which does not
// leave the machine. Paths, bodies, trailers and WebSocket messages are left
// as they are.
//
// The value does not come back by accident. In answers of such a host it is
// replaced by the placeholder in headers, trailers and body, also where it is
// escaped for URLs or JSON or, from eight bytes on, encoded in base64, and
// where it is cut over several packets. Values of less than four bytes are not
// looked for. What does not hold: bodies that are compressed pass as they are
// (a request that is given a secret asks for one that is not), so do values
// that are sent in parts (by ranges, or by separate requests) or transformed,
// and messages after an upgrade. Hosts that are given a secret are trusted not
// to do that. A body in which values are looked for loses its Content-Length;
// bytes at its end that look like the beginning of a value wait for those that
// follow.
//
// # Where it differs from a connection of the client's own
//
// A client that ends its half of an HTTP/1 connection before the answer has
// come is taken to have left. The expectation of 100-continue is passed on for
// HTTP/1 clients; HTTP/2 ones are told to go on when the server takes the body.
package proxy

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// InternalHost is the name by which a sandbox reaches the worker's loopback.
const InternalHost = "host.stint.internal"

// Secret is a value that the sandbox does not hold. Placeholder in headers and
// query becomes Value toward Hosts (see HostMatches) only.
type Secret struct {
	Name, Placeholder, Value string
	Hosts                    []string
}

// Exchange is what is known of one request when it has ended.
type Exchange struct {
	Method        string
	URL           string // as the client wrote it, with placeholders; at most 2,048 bytes
	Host          string // that the request is for, lower case
	Protocol      string // "http/1.0", "http/1.1", "h2", or what an upgrade led to: "websocket"
	Port          uint16
	Status        int   // that the client was given; 0 when it left before
	RequestBytes  int64 // of the body
	ResponseBytes int64 // of the body as the server sent it
	Begin         time.Time
	Duration      time.Duration
	Refused       bool   // by the policy or by this package, and not passed on
	Rule          string // that allowed or refused it
	Err           error  // why it did not end well; tells no secret
}

// Refusal is the error by which Dial says that the policy forbids a
// connection. The client is answered 403 with Message.
type Refusal struct{ Rule, Message string }

func (r Refusal) Error() string { return r.Message }

// Handler passes on the requests of the connections that it is given. Its
// fields are not changed once a connection is served. It may serve several at
// once; what it opens toward servers is shared within one connection only.
type Handler struct {
	Scheme string // of what the client sends: "http" or "https"
	Host   string // what the connection was opened for: pinned name, or IP text
	Port   uint16

	// Dial applies the policy and gives a TCP connection to an address that
	// was checked, and the rule that allowed it; or a Refusal. It is called
	// concurrently and stops when ctx ends.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, string, error)

	Roots   *x509.CertPool // of servers; nil is the system's
	Secrets []Secret

	// Record, unless nil, is told of each request when it has ended. Calls
	// come from several goroutines, one at a time for one Handler.
	Record func(Exchange)
	// Begun, if there is one, hears of each request that is about to be passed
	// on, and gives what is called when it has ended, before Record. It is
	// called by several goroutines at once.
	Begun func(Exchange) (ended func())

	// Local, if there is one, gives what answers a cleartext request in this
	// process, after all checks of its form; nil for one that is passed on. It
	// and the answer may change the Exchange until the answer returns. It is
	// called by several goroutines at once.
	Local func(*http.Request, *Exchange) Answer

	// Heads, if there is one, counts bytes of the headers of requests under way,
	// for all handlers that have the same; beyond a bound requests are refused.
	Heads *atomic.Int64

	Now   func() time.Time
	Proxy bool // absolute-form requests are accepted (explicit proxy); the host is the URL's

	recording sync.Mutex // held while Record runs
}
