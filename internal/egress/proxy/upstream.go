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
	maxIdle      = 32 // idle connections to servers
	idleUpstream = 90 * time.Second
	continueTime = 2 * time.Second // for a server to request the body
)

// upstream holds the connections to servers of one client connection.
type upstream struct {
	conn  *clientConn
	any   *http.Transport // HTTP/2 where the server offers it
	one   *http.Transport // HTTP/1.1 only, for upgrades; created when needed
	conns *conntrack.Set
}

func (u *upstream) init(s *clientConn) {
	u.conn, u.conns = s, conntrack.New(s.ctx)
	u.any = u.transport(true)
}

// upgrades returns the transport for upgrade requests. It is called from one
// goroutine, as upgrades are limited to HTTP/1.
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

// ruleOf returns the rule that allowed a transport's connection.
func ruleOf(c net.Conn) string {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if tracked, ok := c.(*conntrack.Conn); ok {
		return tracked.Rule
	}
	return ""
}

// asRefusal returns the policy's refusal if err is one.
func asRefusal(err error) (policy.Refusal, bool) {
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return *r, true
	}
	return errors.AsType[policy.Refusal](err)
}

// failureMessage explains to the user why there is no response.
func failureMessage(host string, err error) string {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
			return fmt.Sprintf("The certificate of %s was issued by an unknown authority. If the host is correct, the operator can add its issuer with --egress-ca.", host)
		}
		return fmt.Sprintf("The certificate of %s is invalid: %v.", host, bad.Err)
	}
	return fmt.Sprintf("%s did not respond: %v.", host, err)
}
