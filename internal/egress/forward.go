package egress

import (
	"context"
	"net"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// forward passes the connection to the HTTP proxy, which dials the host of each request.
// Each request is logged. The end of the connection is logged only if it had no requests.
func (c *connection) forward(ctx context.Context, d policy.Destination, intercepted bool) {
	h := c.proxyHandler()
	h.Host, h.Port = d.Host(), d.Port
	h.Dial = c.dialForwarded
	var err error
	if intercepted {
		h.Scheme = "https"
		err = h.ServeTLS(ctx, c, c.uplink.gateway.config.Authority)
	} else {
		err = h.Serve(ctx, c)
	}
	c.finishForward(err)
}

func (c *connection) finishForward(err error) {
	c.finishLog(func(e *log.Entry) {
		if err != nil {
			e.Error = reason(err)
		}
	})
}

func (c *connection) proxyHandler() *proxy.Handler {
	u := c.uplink
	return &proxy.Handler{
		Scheme: "http", Roots: u.gateway.config.Roots, Secrets: u.config.Secrets, Redactors: &u.redactors, Now: u.gateway.config.Now,
		Begin: c.beginRequest, Record: c.logRequest, HeaderBytes: &u.headerBytes,
	}
}

// dialForwarded connects to the host of a request. The first request to the destination
// of c uses the server connection that startDial has dialed.
func (c *connection) dialForwarded(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
	if refused := c.dialRefused(); refused != nil {
		return nil, "", *refused
	}
	requested, refused := c.uplink.requested(host, port)
	if refused != nil {
		return nil, "", *refused
	}
	note := ""
	if c.servesName(requested) {
		requested, note = c.dest, " at "+c.dest.Host()
	}
	if requested == c.dest {
		r, err := c.takeServerConn(ctx)
		if err != nil {
			return nil, "", err
		}
		if r != nil {
			return &greetedConn{r.conn, c.greeting}, r.rule + note, nil
		}
	}
	r, err := c.uplink.dial(ctx, requested)
	if err != nil {
		return nil, "", err
	}
	return r.conn, r.rule + note, nil
}

// servesName reports whether a request for a name is sent to the address that the client
// connected to. This is so if a rule allows the address, and the request is for the same
// port and not for stint.HostAlias: then all names that are served at the address may be
// reached. Otherwise the policy decides by name.
func (c *connection) servesName(requested policy.Destination) bool {
	if c.dest.Name != "" || requested.Name == "" || requested.Name == stint.HostAlias || requested.Port != c.dest.Port {
		return false
	}
	rule, refused := c.uplink.policy.Decide(c.dest)
	return refused == nil && strings.HasPrefix(rule, "allow ")
}

// requested returns the destination of a request to host. If host is an address that
// represents a name, the destination has that name.
func (u *Uplink) requested(host string, port uint16) (policy.Destination, *policy.Refusal) {
	d, err := policy.ParseDestination(host, port)
	if err != nil {
		return d, policy.Refuse("no host name", "'%.64s' is not a host name.", host)
	}
	return u.named(d)
}
