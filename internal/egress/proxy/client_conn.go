package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/tlsca"
)

const (
	handshakeTime = 15 * time.Second
	headTime      = 30 * time.Second // time limit for a request's headers
	idleTime      = 3 * time.Minute  // time without a request after which a connection is closed
	maxStreams    = 32               // simultaneous requests on an HTTP/2 connection
	streamWindow  = 512 << 10        // buffered bytes of a body
	connWindow    = 4<<20 - 1        // buffered bytes of all bodies on a connection
)

// Serve forwards the HTTP/1 requests of c and then closes c. If ctx has ended, Serve
// returns the cause of ctx. If only the connection has ended, it returns nil. All its
// goroutines have ended when it returns.
func (h *Handler) Serve(ctx context.Context, c net.Conn) error {
	s := newClientConn(ctx, h)
	return s.serve(ctx, newStrictReader(c))
}

// ServeTLS terminates TLS with a certificate for Host that a issues. It then forwards
// requests like Serve. If the client supports HTTP/2, the connection uses HTTP/2. If the
// handshake fails, for example because the client requests another host's certificate or
// does not trust a, ServeTLS returns an error and records no Exchange.
func (h *Handler) ServeTLS(ctx context.Context, c net.Conn, a *tlsca.Authority) error {
	t := tls.Server(c, &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName != "" && policy.CanonicalHost(hello.ServerName) != policy.CanonicalHost(h.Host) {
				return nil, fmt.Errorf("the client requested %.80q on a connection to %s", hello.ServerName, h.Host)
			}
			return a.Certificate(h.Host)
		},
		NextProtos:             []string{"h2", "http/1.1"},
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true, // so that no ticket key is kept between connections
	})
	shake, cancel := context.WithTimeout(ctx, handshakeTime)
	err := t.HandshakeContext(shake)
	cancel()
	if err != nil {
		c.Close()
		return fmt.Errorf("terminating TLS for %s: %w", h.Host, err)
	}
	s := newClientConn(ctx, h)
	if t.ConnectionState().NegotiatedProtocol == "h2" {
		return s.serve(ctx, t)
	}
	return s.serve(ctx, newStrictReader(t))
}

// clientConn is one connection of a client.
type clientConn struct {
	h          *Handler
	parent     context.Context //nolint:containedctx // ends the connection from outside
	ctx        context.Context //nolint:containedctx // ends with the connection
	cancel     context.CancelFunc
	reader     *strictReader // nil for HTTP/2
	requests   int           // number of requests from reader so far; they are served one after the other
	secretHost string        // the only host that may receive secrets
	broker     *broker
	brokerPort uint16
	handlers   tracker
	up         upstream
}

func newClientConn(ctx context.Context, h *Handler) *clientConn {
	s := &clientConn{h: h, parent: ctx}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.secretHost = stint.HostAlias
	if h.Scheme == "https" {
		s.secretHost = policy.CanonicalHost(h.Host)
	}
	s.broker, s.brokerPort = newBroker(h, s.secretHost, h.Port), h.Port
	s.up.init(s)
	return s
}

// brokerOf returns the broker for a request to host, or nil if no secret may be sent to
// the host. The port can change only between cleartext requests. These are served one
// after the other, so brokerOf needs no lock.
func (s *clientConn) brokerOf(host string, port uint16) *broker {
	if host != s.secretHost {
		return nil
	}
	if port != s.brokerPort {
		s.broker, s.brokerPort = newBroker(s.h, host, port), port
	}
	return s.broker
}

// serve serves the requests of c, which is a *strictReader or a *tls.Conn that
// negotiated HTTP/2. It waits for all goroutines that serve them.
func (s *clientConn) serve(ctx context.Context, c net.Conn) error {
	defer s.cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	l := newSingleListener(c)
	server := s.server(l)
	if w, ok := c.(*strictReader); ok {
		s.reader = w
	}
	_ = server.Serve(l) // always returns the error that the listener was closed
	s.handlers.end()
	stop()
	s.cancel()
	s.up.close()
	c.Close()
	return context.Cause(ctx)
}

func (s *clientConn) server(l *singleListener) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	limit := maxHead
	if _, ok := l.conn.(*strictReader); ok {
		limit += 64 << 10 // the strictReader applies maxHead itself, so that requests with larger heads are recorded
		protocols.SetHTTP2(false)
	}
	return &http.Server{
		Handler: s, Protocols: protocols,
		ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: limit,
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow,
		},
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // errors of clients are recorded instead
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				l.end()
			}
		},
	}
}

// singleListener is a listener that accepts one connection. Close may be called several
// times.
type singleListener struct {
	conn  net.Conn
	next  chan net.Conn   // contains conn until it is accepted
	ended context.Context //nolint:containedctx // ends with Close
	end   context.CancelFunc
}

func newSingleListener(c net.Conn) *singleListener {
	l := &singleListener{conn: c, next: make(chan net.Conn, 1)}
	l.next <- c
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

func (l *singleListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.next:
		return c, nil
	case <-l.ended.Done():
		return nil, net.ErrClosed
	}
}

func (l *singleListener) Close() error {
	l.end()
	return nil
}

func (l *singleListener) Addr() net.Addr { return l.conn.LocalAddr() }

// tracker counts the handlers of a connection. end waits for the end of all handlers.
// After end has been called, begin returns false.
type tracker struct {
	mu    sync.Mutex // guards ended, and prevents handlers from beginning during end
	ended bool
	wg    sync.WaitGroup
}

func (t *tracker) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.wg.Add(1)
	}
	return !t.ended
}

func (t *tracker) done() { t.wg.Done() }

func (t *tracker) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.wg.Wait()
}
