package llmproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/egress/conntrack"
)

const (
	maxIdle       = 32 // maximum number of idle connections
	idleTime      = 60 * time.Second
	handshakeTime = 30 * time.Second
	pingAfter     = 30 * time.Second // time without bytes after which an HTTP/2 connection is tested
	pingTime      = 15 * time.Second
	maxHead       = 1 << 20
)

// providerPool contains the connections of a run to its provider.
type providerPool struct {
	conns     *conntrack.Set
	transport *http.Transport
}

func newProviderPool(dial conntrack.DialFunc, roots *x509.CertPool) *providerPool {
	p := &providerPool{conns: conntrack.New(context.Background())}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	p.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return p.conns.Dial(ctx, address, dial)
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTime,
		DisableCompression:     true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHead,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTime},
	}
	return p
}

func (p *providerPool) close() {
	p.transport.CloseIdleConnections()
	p.conns.Close()
}
