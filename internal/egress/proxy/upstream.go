package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/egress/conntrack"
	"github.com/stint-dev/stint/internal/egress/policy"
)

const (
	maxIdle      = 32 // maximum number of idle connections to servers
	idleUpstream = 90 * time.Second
	continueTime = 2 * time.Second // time for a server to respond to Expect: 100-continue
)

// upstream contains the connections to servers for the requests of one client connection.
type upstream struct {
	conn  *clientConn
	any   *http.Transport // uses HTTP/2 if the server supports it within TLS
	one   *http.Transport // uses only HTTP/1.1, for upgrades; created when needed
	conns *conntrack.Set
}

func (u *upstream) init(s *clientConn) {
	u.conn, u.conns = s, conntrack.New(s.ctx)
	u.any = u.transport(true)
}

// upgrades returns the transport for upgrade requests. It needs no lock, because upgrades
// are limited to HTTP/1, where requests are served one after the other.
func (u *upstream) upgrades() *http.Transport {
	if u.one == nil {
		u.one = u.transport(false)
	}
	return u.one
}

func (u *upstream) transport(h2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(h2)
	return &http.Transport{
		DialContext:            u.dial,
		TLSClientConfig:        &tls.Config{RootCAs: u.conn.h.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTime,
		DisableCompression:     true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleUpstream,
		ExpectContinueTimeout:  continueTime,
		MaxResponseHeaderBytes: maxResponseHead,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow},
	}
}

func (u *upstream) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return u.conns.Dial(ctx, address, u.conn.h.Dial)
}

// close closes all connections and waits for dials in progress.
func (u *upstream) close() {
	u.any.CloseIdleConnections()
	if u.one != nil {
		u.one.CloseIdleConnections()
	}
	u.conns.Close()
}

// ruleOf returns the rule that allowed a connection of the transport.
func ruleOf(c net.Conn) string {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if tracked, ok := c.(*conntrack.Conn); ok {
		return tracked.Rule
	}
	return ""
}

// asRefusal returns the policy's refusal in err, and reports whether there is one.
func asRefusal(err error) (policy.Refusal, bool) {
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return *r, true
	}
	return errors.AsType[policy.Refusal](err)
}

// failureMessage returns a sentence for the user with the reason why host sent no
// response.
func failureMessage(host string, err error) string {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
			return fmt.Sprintf("The certificate of %s was issued by an unknown authority. If the host is correct, the operator can add its issuer with --egress-ca.", host)
		}
		return fmt.Sprintf("The certificate of %s is invalid: %v.", host, bad.Err)
	}
	return fmt.Sprintf("%s did not respond: %v.", host, err)
}
