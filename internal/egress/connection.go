package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
	"github.com/stint-dev/stint/internal/sandbox"
)

const dnsPort = 53

// acceptAll takes the sandbox's connections until the listener ends.
func (s *Session) acceptAll(l sandbox.Listener) {
	for {
		c, target, err := l.Accept()
		switch {
		case err == nil:
			s.admit(c, target)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.gate.config.Logger.Debug("accepting a connection of a sandbox failed", "error", err)
			if !s.pause(20 * time.Millisecond) {
				return
			}
		}
	}
}

// admit serves a connection when there is a place for it.
func (s *Session) admit(c net.Conn, target netip.AddrPort) {
	id := s.count.Add(1)
	select {
	case s.conns <- struct{}{}:
	default:
		abort(c)
		s.journal.write(Entry{
			Time: s.gate.config.Now(), Connection: id, Action: Deny, Rule: "too many connections", Protocol: "tcp",
			Host: target.Addr().Unmap().String(), Port: target.Port(),
		})
		return
	}
	s.work.Go(func() {
		defer func() { <-s.conns }()
		defer c.Close()
		defer context.AfterFunc(s.life, func() { c.Close() })()
		s.serve(s.life, &stream{Conn: c, session: s}, target, id)
	})
}

// serve decides what a connection is for by the address that was asked for.
func (s *Session) serve(ctx context.Context, c *stream, target netip.AddrPort, id int64) {
	if target.Port() == dnsPort {
		s.answerStream(ctx, c)
		return
	}
	d, refused := s.destination(target)
	if refused == nil && d.name == stint.ProxyAlias && s.proxies() {
		s.serveProxy(ctx, c, d, id)
		return
	}
	if refused == nil {
		_, refused = s.policy.decide(d)
	}
	f := s.begin(id, d)
	if refused != nil {
		s.pass(ctx, c, f, refusedAttempt(refused))
		return
	}
	if s.policy.offers(d.name) {
		s.serveOwn(ctx, c, f, d)
		return
	}
	s.pass(ctx, c, f, s.attempt(ctx, d, nil))
}

// destination finds the name that an address stands for.
func (s *Session) destination(target netip.AddrPort) (dest, *proxy.Refusal) {
	a := target.Addr().Unmap().WithZone("")
	if !pinned.Contains(a) {
		return dest{addr: a, port: target.Port()}, nil
	}
	name, ok := s.pins.name(a)
	if !ok {
		d := dest{addr: a, port: target.Port()}
		return d, refusal("unknown address", "%s stands for no name that was looked up in this sandbox. Look the name up again.", d)
	}
	return dest{name: name, port: target.Port()}, nil
}

// pass lets a connection through as what its first bytes show it to be.
func (s *Session) pass(ctx context.Context, c *stream, f *flow, a *attempt) {
	defer a.abandon()
	defer f.stop()
	o := s.listen(c, f.dest, a)
	f.note(o)
	if o.kind == kindHTTP {
		s.forward(ctx, c, f, a, f.dest, false)
		return
	}
	r, err := a.wait()
	if refused, ok := errors.AsType[proxy.Refusal](err); ok {
		f.deny(c, &refused)
		return
	}
	host, inspected := s.inspects(o, f.dest)
	if refused := s.suspect(o, f.dest, inspected); refused != nil {
		f.deny(c, refused)
		return
	}
	if inspected {
		s.forward(ctx, c, f, a, dest{name: host, port: f.dest.port}, true)
		return
	}
	if err != nil {
		f.fail(c, err)
		return
	}
	s.tunnel(c, f, a, r)
}

// inspects tells whether TLS is to be terminated, and as which host.
func (s *Session) inspects(o opening, d dest) (string, bool) {
	if o.kind != kindTLS || len(s.inspect) == 0 {
		return "", false
	}
	for _, host := range []string{o.serverName, d.name} {
		if host != "" && proxy.HostMatches(s.inspect, host, d.port) {
			return host, true
		}
	}
	return "", false
}

// suspect refuses what could carry a restricted connection elsewhere than to
// the name that it was opened for.
func (s *Session) suspect(o opening, d dest, inspected bool) *proxy.Refusal {
	switch {
	case !s.strict(d):
		return nil
	case o.kind == kindUnreadable:
		return refusal("unreadable opening", "The first bytes sent to %s cannot be read as a whole.", d)
	case o.kind == kindHTTP2:
		return refusal("cleartext HTTP/2", "Cleartext HTTP/2 to %s may name any host. Use TLS, or add its address to network.allow.", d)
	case o.kind != kindTLS:
		return nil
	case o.hidden && !inspected:
		return refusal("encrypted ClientHello", "The connection to %s hides the server's name. Turn encrypted ClientHello off, or add the host to network.inspect.", d)
	case o.serverName == "" || o.serverName == d.name:
		return nil
	}
	_, refused := s.policy.named(o.serverName, d.port)
	return refused
}

// strict tells whether a connection must stay with its name: the addresses of
// a restricted session's ranges, and the worker, are what they are.
func (s *Session) strict(d dest) bool {
	return s.policy.mode == Restricted && d.name != "" && d.name != stint.HostAlias
}

// abort ends a connection with a reset, so the program knows at once.
func abort(c net.Conn) {
	if s, ok := c.(*stream); ok {
		c = s.Conn
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}
