package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/llmproxy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// ownPort is where the names that are answered in this process answer.
const ownPort = 80

// openOwn makes what answers the names that the run is offered.
func (s *Session) openOwn() error {
	s.policy.own = map[string]string{}
	if s.run.APIToken != "" && s.gate.config.API != nil {
		s.api = llmproxy.API{Handler: s.gate.config.API, Token: s.run.APIToken}
		s.policy.own[stint.APIAlias] = llmproxy.RuleAPI
	}
	m := s.run.Model
	if m == nil {
		return nil
	}
	c := s.gate.config
	var err error
	s.model, err = llmproxy.New(llmproxy.Config{
		Type: m.Type, BaseURL: m.BaseURL, Key: m.Key, Count: m.Count, Heard: m.Heard,
		Dial: s.dialProvider, Roots: c.Roots, Idle: c.IdleTimeout, Now: c.Now,
	})
	if err != nil {
		return fmt.Errorf("egress: opening the way to the model: %w", err)
	}
	s.policy.own[stint.ModelAlias] = llmproxy.RuleProvider
	return nil
}

// proxies tells whether there is an explicit proxy: not where nothing is to be
// reached.
func (s *Session) proxies() bool { return s.policy.mode != None || len(s.policy.own) > 0 }

// serveOwn answers a connection to d, a name that is answered in this process.
func (s *Session) serveOwn(ctx context.Context, c *stream, f *flow, d dest) {
	f.update(func(e *Entry) { e.Protocol, e.Rule = "http/1.1", s.policy.own[d.name] })
	h := s.handler(f)
	h.Host, h.Port, h.Local = d.host(), d.port, s.local
	h.Dial = func(context.Context, string, uint16) (net.Conn, string, error) {
		return nil, "", *refusal("host mismatch", "This connection is for %s alone. Open another for other hosts.", d.name)
	}
	s.served(f, h.Serve(ctx, c))
}

// local gives what answers a request in this process.
func (s *Session) local(r *http.Request, x *proxy.Exchange) proxy.Answer {
	d, refused := s.asked(x.Host, x.Port)
	switch {
	case refused != nil || d.port != ownPort || !s.policy.offers(d.name):
		return nil
	case d.name == stint.ModelAlias:
		return s.model.Answer(r, x)
	}
	return s.api.Answer(r, x)
}

// dialProvider reaches the model's provider. That the definition names it
// allows its name in every mode, but no address that is refused otherwise.
func (s *Session) dialProvider(ctx context.Context, host string, port uint16) (net.Conn, error) {
	d, refused := s.provider(host, port)
	if refused != nil {
		return nil, *refused
	}
	r, err := s.open(ctx, d, llmproxy.RuleProvider)
	if err != nil {
		return nil, err
	}
	return r.conn, nil
}

// provider decides on the host of the provider's URL. The addresses of a name
// are checked apart.
func (s *Session) provider(host string, port uint16) (dest, *proxy.Refusal) {
	if a, err := netip.ParseAddr(host); err == nil {
		d := dest{addr: a.Unmap().WithZone(""), port: port}
		_, refused := s.policy.address(d.addr, port, dest{name: d.addr.String(), port: port})
		return d, refused
	}
	name, err := stint.CanonicalDomain(host)
	switch {
	case err != nil:
		return dest{}, refusal("no host name", "'%.64s' is no name of a host. Correct provider.baseUrl.", host)
	case name == stint.HostAlias:
		_, refused := s.policy.worker(port)
		return dest{name: name, port: port}, refused
	case ownName(name):
		return dest{}, refusal("unknown name", "%s leads nowhere from here. For the worker's loopback, write %s:%d in provider.baseUrl and in network.allow.", name, stint.HostAlias, port)
	}
	return dest{name: name, port: port}, nil
}
