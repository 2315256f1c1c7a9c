package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

const (
	lookupTimeout = 8 * time.Second
	dialTimeout   = 30 * time.Second // over all addresses of a name
	tryTimeout    = 10 * time.Second // of one address while others are left
	maxAddresses  = 16               // of one name
)

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// rooted asks for the name as it is, without the host's search list.
type rooted struct{ r *net.Resolver }

func (r rooted) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r.r.LookupNetIP(ctx, network, host+".")
}

// route is a way out: what allowed it, where it leads.
type route struct {
	conn net.Conn
	rule string
	addr netip.AddrPort
}

// reach decides on d and dials it. The error is a forward.Refusal where the
// policy refuses.
func (s *Session) reach(ctx context.Context, d dest) (*route, error) {
	rule, refused := s.policy.decide(d)
	if refused != nil {
		return nil, *refused
	}
	return s.open(ctx, d, rule)
}

// open dials d, on which rule decided, at an address that is checked.
func (s *Session) open(ctx context.Context, d dest, rule string) (*route, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errors.New("no address answered in time"))
	defer cancel()
	candidates, err := s.candidates(ctx, d, rule)
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		c := &candidates[i]
		if c.conn, err = s.try(ctx, c.addr, i < len(candidates)-1); err == nil {
			return c, nil
		}
	}
	return nil, failure{fmt.Errorf("dialing %s: %w", d, err)}
}

// try dials one address, within a shorter time where others are left.
func (s *Session) try(ctx context.Context, a netip.AddrPort, others bool) (net.Conn, error) {
	if others {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tryTimeout)
		defer cancel()
	}
	return s.gate.config.Dialer(ctx, "tcp", a.String())
}

// candidates are the checked addresses of d, in the order to try them.
func (s *Session) candidates(ctx context.Context, d dest, rule string) ([]route, error) {
	switch d.name {
	case "":
		return []route{{rule: rule, addr: netip.AddrPortFrom(d.addr.Unmap(), d.port)}}, nil
	case stint.HostAlias:
		return []route{{rule: rule, addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), d.port)}}, nil
	}
	if ownName(d.name) {
		return nil, *refusal("unknown name", "%s leads nowhere from here.", d.name)
	}
	addrs, err := s.lookup(ctx, d.name)
	if err != nil {
		return nil, err
	}
	found, refused := s.checked(addrs, d, rule)
	if len(found) == 0 {
		return nil, *refused
	}
	return found, nil
}

// checked keeps the addresses that may be reached; the refusal is that of the
// first one that may not.
func (s *Session) checked(addrs []netip.Addr, d dest, rule string) (found []route, refused *proxy.Refusal) {
	for _, a := range addrs {
		opened, no := s.policy.address(a, d.port, d)
		switch {
		case no == nil && opened != "":
			found = append(found, route{rule: opened, addr: netip.AddrPortFrom(a, d.port)})
		case no == nil:
			found = append(found, route{rule: rule, addr: netip.AddrPortFrom(a, d.port)})
		case refused == nil:
			refused = no
		}
	}
	return found, refused
}

// lookup gives the addresses of a name, IPv4 first, at least one.
// Nothing but what it gives is ever dialed for the name.
func (s *Session) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if addrs, ok := s.answers.get(name, s.gate.config.Now()); ok {
		return addrs, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, errors.New("no answer in time"))
	defer cancel()
	found, err := s.gate.config.Resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, failure{fmt.Errorf("looking up %s: %w", name, err)}
	}
	addrs := make([]netip.Addr, 0, len(found))
	for _, a := range found {
		addrs = append(addrs, a.Unmap())
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	addrs = addrs[:min(len(addrs), maxAddresses)]
	if len(addrs) == 0 {
		return nil, failure{&net.DNSError{Err: "no such host", Name: name, IsNotFound: true}}
	}
	s.answers.put(name, addrs, s.gate.config.Now())
	return addrs, nil
}
