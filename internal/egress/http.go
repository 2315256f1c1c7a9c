package egress

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// forward hands a connection to the forwarder, which asks back for each host
// that it needs. Every request is an entry; the connection is none, unless
// nothing is told of it for a while.
func (s *Session) forward(ctx context.Context, c *stream, f *flow, a *attempt, d dest, secure bool) {
	h := s.handler(f)
	h.Host, h.Port = d.host(), d.port
	h.Dial = s.dialer(f.dest, a)
	var err error
	if secure {
		h.Scheme = "https"
		err = h.ServeTLS(ctx, c, s.gate.config.Authority)
	} else {
		err = h.Serve(ctx, c)
	}
	s.served(f, err)
}

// served tells of a forwarded connection that carried no request.
func (s *Session) served(f *flow, err error) {
	f.finish(func(e *Entry) {
		if err != nil {
			e.Error = reason(err)
		}
	})
}

// handler forwards the requests of one connection.
func (s *Session) handler(f *flow) *proxy.Handler {
	return &proxy.Handler{
		Scheme: "http", Roots: s.gate.config.Roots, Secrets: s.run.Secrets, Now: s.gate.config.Now,
		Begun: f.begun, Record: f.exchange, Heads: &s.heads,
	}
}

// dialer decides for each host that requests of a connection to d name. The
// first that stays with d takes the way that was opened for it.
func (s *Session) dialer(d dest, a *attempt) func(context.Context, string, uint16) (net.Conn, string, error) {
	return func(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
		if refused := a.refused(); refused != nil {
			return nil, "", *refused
		}
		asked, refused := s.asked(host, port)
		if refused != nil {
			return nil, "", *refused
		}
		note := ""
		if s.staysAt(d, asked) {
			asked, note = d, " at "+d.host()
		}
		if asked == d {
			r, err := a.take(ctx)
			if err != nil {
				return nil, "", err
			}
			if r != nil {
				return &replayed{r.conn, a.first}, r.rule + note, nil
			}
		}
		r, err := s.reach(ctx, asked)
		if err != nil {
			return nil, "", err
		}
		return r.conn, r.rule + note, nil
	}
}

// staysAt tells whether a request for another name belongs to the address that
// was asked for: where a rule names that address, whatever is served there may
// be reached. Elsewhere the name decides, and what is logged is where it went.
func (s *Session) staysAt(d, asked dest) bool {
	if d.name != "" || asked.name == "" || asked.name == stint.HostAlias || asked.port != d.port {
		return false
	}
	rule, refused := s.policy.decide(d)
	return refused == nil && strings.HasPrefix(rule, "allow ")
}

// asked reads the host that a request is for.
func (s *Session) asked(host string, port uint16) (dest, *proxy.Refusal) {
	if a, err := netip.ParseAddr(host); err == nil {
		return s.destination(netip.AddrPortFrom(a, port))
	}
	name, err := stint.CanonicalDomain(host)
	if err != nil {
		return dest{}, refusal("no host name", "'%.64s' is no name of a host.", host)
	}
	return dest{name: name, port: port}, nil
}
