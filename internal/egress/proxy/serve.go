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
	headTime      = 30 * time.Second // for a request's headers to come
	idleTime      = 3 * time.Minute  // without a request
	maxStreams    = 32               // requests at once on an HTTP/2 connection, each of which holds its headers
	streamWindow  = 512 << 10        // bytes of a body that wait for a slow reader
	connWindow    = 4<<20 - 1        // bytes of all bodies on a connection that wait
)

// Serve passes on the HTTP/1 requests of c and closes it. It returns when the
// client is gone, or with the cause of ctx's end; nothing of it is left then.
func (h *Handler) Serve(ctx context.Context, c net.Conn) error {
	s := newSession(ctx, h)
	return s.serve(ctx, newWire(c))
}

// ServeTLS ends the TLS of c in the name of Host with a certificate of a, then
// does as Serve for HTTP/1.1 or HTTP/2, whichever the client prefers. A client
// that asks for the certificate of another host, or does not trust a, gives an
// error and no Exchange.
func (h *Handler) ServeTLS(ctx context.Context, c net.Conn, a *tlsca.Authority) error {
	t := tls.Server(c, &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName != "" && policy.CanonicalHost(hello.ServerName) != policy.CanonicalHost(h.Host) {
				return nil, fmt.Errorf("the client asks for %.80q on a connection to %s", hello.ServerName, h.Host)
			}
			return a.Certificate(h.Host)
		},
		NextProtos:             []string{"h2", "http/1.1"},
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true, // the key would be gone before the client is back
	})
	shake, cancel := context.WithTimeout(ctx, handshakeTime)
	err := t.HandshakeContext(shake)
	cancel()
	if err != nil {
		c.Close()
		return fmt.Errorf("ending TLS for %s: %w", h.Host, err)
	}
	s := newSession(ctx, h)
	if t.ConnectionState().NegotiatedProtocol == "h2" {
		return s.serve(ctx, t)
	}
	return s.serve(ctx, newWire(t))
}

// session is one connection of a client.
type session struct {
	h          *Handler
	above      context.Context //nolint:containedctx // what ends the connection from outside
	ctx        context.Context //nolint:containedctx // the connection's life, which dials share
	cancel     context.CancelFunc
	wire       *wire  // nil for HTTP/2
	requests   int    // on the wire; its requests come one after the other
	secretTo   string // the one host that may be given secrets
	broker     *broker
	brokerPort uint16 // of the broker
	handlers   tracker
	up         upstream
}

func newSession(ctx context.Context, h *Handler) *session {
	s := &session{h: h, above: ctx}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.secretTo = stint.HostAlias
	if h.Scheme == "https" {
		s.secretTo = policy.CanonicalHost(h.Host)
	}
	s.broker, s.brokerPort = newBroker(h.Secrets, h.Scheme, s.secretTo, h.Port), h.Port
	s.up.init(s)
	return s
}

// brokerOf gives the broker for a request, nil where no secret is for its
// host. The port varies in cleartext only, where requests come one after the
// other.
func (s *session) brokerOf(host string, port uint16) *broker {
	if host != s.secretTo {
		return nil
	}
	if port != s.brokerPort {
		s.broker, s.brokerPort = newBroker(s.h.Secrets, s.h.Scheme, host, port), port
	}
	return s.broker
}

// serve handles the requests of c, which is a *wire or a *tls.Conn that
// negotiated HTTP/2, and waits for everything that they began.
func (s *session) serve(ctx context.Context, c net.Conn) error {
	defer s.cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	one := &oneConn{conn: c, done: make(chan struct{})}
	server := s.server(one)
	if w, ok := c.(*wire); ok {
		s.wire = w
	}
	_ = server.Serve(one) // says that the listener was closed
	s.handlers.end()
	stop()
	s.cancel()
	s.up.close()
	c.Close()
	return context.Cause(ctx)
}

func (s *session) server(one *oneConn) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	limit := maxHead
	if _, ok := one.conn.(*wire); ok {
		limit += 64 << 10 // the wire's limit is the one that is met, and recorded
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
		ErrorLog:    log.New(io.Discard, "", 0), // what clients do wrong is recorded, not logged
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				_ = one.Close() // it cannot fail
			}
		},
	}
}

// oneConn is a listener that has one connection.
type oneConn struct {
	mu   sync.Mutex // guards given
	conn net.Conn
	given,
	closed bool
	done chan struct{} // closed when the connection has ended
}

func (l *oneConn) Accept() (net.Conn, error) {
	l.mu.Lock()
	first := !l.given
	l.given = true
	l.mu.Unlock()
	if first {
		return l.conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// tracker waits for what began before its end, and lets nothing begin after.
type tracker struct {
	mu    sync.Mutex // guards ended; held while wg grows
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
