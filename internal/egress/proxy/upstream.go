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
	maxIdle      = 32 // connections to servers that wait for another request
	idleUpstream = 90 * time.Second
	continueTime = 2 * time.Second // for a server to say that it wants the body
)

// upstream is the server's side of a session: the connections that it opened.
type upstream struct {
	s     *session
	any   *http.Transport // HTTP/2 where the server offers it
	one   *http.Transport // HTTP/1.1 only, for upgrades; made when needed
	conns *conntrack.Set
}

func (u *upstream) init(s *session) {
	u.s, u.conns = s, conntrack.New(s.ctx)
	u.any = u.transport(true)
}

// upgrades gives the transport of requests for another protocol, of which an
// HTTP/1 connection has one at a time.
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
		TLSClientConfig:        &tls.Config{RootCAs: u.s.h.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTime,
		DisableCompression:     true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleUpstream,
		ExpectContinueTimeout:  continueTime,
		MaxResponseHeaderBytes: maxAnswerHead,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow},
	}
}

func (u *upstream) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return u.conns.Dial(ctx, address, u.open)
}

// open asks the handler for a connection.
func (u *upstream) open(ctx context.Context, host string, port uint16) (net.Conn, error) {
	c, rule, err := u.s.h.Dial(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return &serverConn{c, rule}, nil
}

// close ends all connections and waits for those that are being opened.
func (u *upstream) close() {
	u.any.CloseIdleConnections()
	if u.one != nil {
		u.one.CloseIdleConnections()
	}
	u.conns.Close()
}

// serverConn is a connection to a server and the rule that allowed it.
type serverConn struct {
	net.Conn
	rule string
}

// CloseWrite ends what is sent, where the connection can.
func (c *serverConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// ruleOf gives the rule that allowed a transport's connection.
func ruleOf(c net.Conn) string {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if d, ok := c.(*conntrack.Conn); ok {
		c = d.Conn
	}
	if s, ok := c.(*serverConn); ok {
		return s.rule
	}
	return ""
}

// refusal reads the policy's word from an error of a dial.
func refusal(err error) (policy.Refusal, bool) {
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return *r, true
	}
	return errors.AsType[policy.Refusal](err)
}

// sentence says to the client's user why there is no answer.
func sentence(host string, err error) string {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
			return fmt.Sprintf("The certificate of %s is invalid here: nobody who is trusted vouches for it. If the host is right, the operator can add its issuer with --egress-ca.", host)
		}
		return fmt.Sprintf("The certificate of %s is invalid: %v.", host, bad.Err)
	}
	return fmt.Sprintf("%s gave no answer: %v.", host, err)
}
