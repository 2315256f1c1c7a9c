package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	maxWaiting    = 32 // connections that wait for another call
	waitingTime   = 60 * time.Second
	handshakeTime = 30 * time.Second
	pingAfter     = 30 * time.Second // of silence, on HTTP/2
	pingTime      = 15 * time.Second
	maxHead       = 1 << 20
)

var errClosed = errors.New("the run's network has ended")

// pool are the connections to the provider.
type pool struct {
	dial      func(context.Context, string, uint16) (net.Conn, error)
	transport *http.Transport
	life      context.Context //nolint:containedctx // dialing ends with it
	end       context.CancelFunc

	mu      sync.Mutex // guards what follows, and dialing's start against its end
	conns   map[*pooled]struct{}
	closed  bool
	dialing sync.WaitGroup
}

func newPool(dial func(context.Context, string, uint16) (net.Conn, error), roots *x509.CertPool) *pool {
	p := &pool{dial: dial, conns: map[*pooled]struct{}{}}
	p.life, p.end = context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	p.transport = &http.Transport{
		DialContext:            p.connect,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTime,
		DisableCompression:     true,
		MaxIdleConns:           maxWaiting,
		MaxIdleConnsPerHost:    maxWaiting,
		IdleConnTimeout:        waitingTime,
		MaxResponseHeaderBytes: maxHead,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTime},
	}
	return p
}

func (p *pool) connect(ctx context.Context, _, address string) (net.Conn, error) {
	if !p.begin() {
		return nil, errClosed
	}
	defer p.dialing.Done()
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	c, err := p.dial(ctx, host, uint16(port))
	if err != nil {
		return nil, err
	}
	return p.keep(c)
}

func (p *pool) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.dialing.Add(1)
	}
	return !p.closed
}

func (p *pool) keep(c net.Conn) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return nil, errClosed
	}
	kept := &pooled{c, p}
	p.conns[kept] = struct{}{}
	return kept, nil
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	open := p.conns
	p.conns = map[*pooled]struct{}{}
	p.mu.Unlock()
	p.end()
	p.transport.CloseIdleConnections()
	for c := range open {
		c.Conn.Close()
	}
	p.dialing.Wait()
}

// pooled is one connection of a pool.
type pooled struct {
	net.Conn
	pool *pool
}

// Close closes the connection and forgets it.
func (c *pooled) Close() error {
	c.pool.mu.Lock()
	delete(c.pool.conns, c)
	c.pool.mu.Unlock()
	return c.Conn.Close()
}
