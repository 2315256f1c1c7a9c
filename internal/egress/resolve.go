package egress

import (
	"context"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/dns"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// resolve returns the reply to a DNS question of the sandbox. It logs refusals and
// failed lookups.
func (u *Uplink) resolve(ctx context.Context, q dnsmessage.Question) dns.Reply {
	began := u.gateway.config.Now()
	name, err := policy.CanonicalDomain(q.Name.String())
	if err != nil {
		name = q.Name.String()
	}
	write := func(action, rule, message string) {
		u.log.Write(log.Entry{
			Time: began, Action: action, Rule: rule, Error: message, Protocol: "dns", Method: strings.TrimPrefix(q.Type.String(), "Type"),
			Host: name, Port: dnsPort, Duration: u.gateway.config.Now().Sub(began),
		})
	}
	refuse := func(code uint16, r *policy.Refusal) dns.Reply {
		write(log.Deny, r.Rule, r.Message)
		return dns.Refuse(code, r.Message)
	}
	switch {
	case err != nil:
		return refuse(dns.Blocked, policy.Refuse("no host name", "This is not a host name."))
	case name == "localhost":
		return loopback(q.Type)
	}
	rule, refused := u.allowsLookup(name)
	if refused != nil {
		return refuse(dns.Prohibited, refused)
	}
	if q.Type != dnsmessage.TypeA {
		return dns.Reply{}
	}
	if refused, err = u.checkName(ctx, name); refused != nil {
		return refuse(dns.Blocked, refused)
	}
	if err != nil {
		write(log.Allow, rule, err.Error())
		return dns.Fail(err)
	}
	addr, ok := u.names.Addr(name)
	if !ok {
		return refuse(dns.Blocked, policy.Refuse("too many names", "This run has looked up more names than a run may."))
	}
	return dns.Reply{Addr: addr}
}

// loopback returns the reply to a question of type t for localhost, which is the sandbox
// itself.
func loopback(t dnsmessage.Type) dns.Reply {
	if t == dnsmessage.TypeA {
		return dns.Reply{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return dns.Reply{}
}

// allowsLookup returns the rule that allows connections to name on at least one port, or
// a refusal. A name that is refused is not looked up.
func (u *Uplink) allowsLookup(name string) (rule string, refused *policy.Refusal) {
	switch {
	case u.policy.IsInternal(name):
		return u.policy.Internal[name], nil
	case name == stint.ProxyAlias && u.hasProxy():
		return "proxy", nil
	case u.policy.Mode == policy.None:
	case name == stint.HostAlias:
		return u.policy.DecideWorker(0)
	case name == stint.ModelAlias:
		return "", policy.Refuse("unknown name", "The agent's definition has no provider, so %s does not exist.", name)
	case name == stint.APIAlias:
		return "", policy.Refuse("unknown name", "The agent's definition has no tools, so %s does not exist.", name)
	case policy.IsReserved(name):
		return "", policy.Refuse("unknown name", "Below stint.internal there are only %s and %s.", stint.HostAlias, stint.ProxyAlias)
	}
	return u.policy.DecideName(name, 0)
}

// checkName looks up a name, except a reserved name. If none of its addresses is allowed,
// checkName returns a refusal.
func (u *Uplink) checkName(ctx context.Context, name string) (*policy.Refusal, error) {
	if policy.IsReserved(name) {
		return nil, nil
	}
	addrs, err := u.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	allowed, refused := u.checkAddrs(addrs, policy.Destination{Name: name}, "")
	if len(allowed) > 0 {
		return nil, nil
	}
	return refused, nil
}
