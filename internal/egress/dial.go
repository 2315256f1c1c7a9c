package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
)

const (
	dialTimeout    = 30 * time.Second // time limit for the lookup and all addresses of a name
	addressTimeout = 10 * time.Second // time limit for one address if others remain
)

// serverConn is a connection to a server with the rule that allowed it.
type serverConn struct {
	conn net.Conn
	rule string
	addr netip.AddrPort
}

// dial connects to d if the policy allows it. If the policy refuses d or all of its
// addresses, the error is a policy.Refusal.
func (u *Uplink) dial(ctx context.Context, d policy.Destination) (*serverConn, error) {
	rule, refused := u.policy.Decide(d)
	if refused != nil {
		return nil, *refused
	}
	return u.dialAllowed(ctx, d, rule)
}

// dialAllowed connects to the first address of d that answers, among the addresses that
// the policy allows. rule is the rule that allowed d.
func (u *Uplink) dialAllowed(ctx context.Context, d policy.Destination, rule string) (*serverConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errors.New("no address answered in time"))
	defer cancel()
	candidates, err := u.candidates(ctx, d, rule)
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		r := &candidates[i]
		if r.conn, err = u.dialAddr(ctx, r.addr, i == len(candidates)-1); err == nil {
			return r, nil
		}
	}
	return nil, networkError{fmt.Errorf("dialing %s: %w", d, err)}
}

func (u *Uplink) dialAddr(ctx context.Context, a netip.AddrPort, last bool) (net.Conn, error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, addressTimeout)
		defer cancel()
	}
	return u.gateway.config.Dialer(ctx, "tcp", a.String())
}

// candidates returns the addresses of d that the policy allows, in the order in which
// they are dialed.
func (u *Uplink) candidates(ctx context.Context, d policy.Destination, rule string) ([]serverConn, error) {
	switch d.Name {
	case "":
		return []serverConn{{rule: rule, addr: netip.AddrPortFrom(d.Addr.Unmap(), d.Port)}}, nil
	case stint.HostAlias:
		return []serverConn{{rule: rule, addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), d.Port)}}, nil
	}
	if policy.IsReserved(d.Name) {
		return nil, *policy.Refuse("unknown name", "%s does not exist in this sandbox.", d.Name)
	}
	addrs, err := u.lookup(ctx, d.Name)
	if err != nil {
		return nil, err
	}
	allowed, refused := u.checkAddrs(addrs, d, rule)
	if len(allowed) == 0 {
		return nil, *refused
	}
	return allowed, nil
}

// lookup returns the addresses of a name. Only these addresses are dialed for the name.
func (u *Uplink) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := u.lookups.Lookup(ctx, name)
	if err != nil {
		return nil, networkError{fmt.Errorf("looking up %s: %w", name, err)}
	}
	return addrs, nil
}

// checkAddrs returns the addresses that the policy allows, and the refusal of the first
// address that it does not allow. rule is the rule that allowed the name.
func (u *Uplink) checkAddrs(addrs []netip.Addr, d policy.Destination, rule string) (allowed []serverConn, refused *policy.Refusal) {
	for _, a := range addrs {
		addrRule, no := u.policy.DecideAddr(a, d.Port, d)
		switch {
		case no == nil && addrRule != "":
			allowed = append(allowed, serverConn{rule: addrRule, addr: netip.AddrPortFrom(a, d.Port)})
		case no == nil:
			allowed = append(allowed, serverConn{rule: rule, addr: netip.AddrPortFrom(a, d.Port)})
		case refused == nil:
			refused = no
		}
	}
	return allowed, refused
}
