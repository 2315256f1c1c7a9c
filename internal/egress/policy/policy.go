// Package policy decides which destinations a sandbox may reach.
//
// The policy decides by name. If it allows a name, the caller looks up the name and asks
// again for each of its addresses, because an allowed name may have an address that is
// not allowed.
package policy

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
)

// Mode is a definition's network.mode.
type Mode string

// The modes.
const (
	Public     Mode = "public"     // the public internet, and destinations in Allow
	Restricted Mode = "restricted" // only destinations in Allow
	None       Mode = "none"
)

// InternalPort is the only port of the internal names.
const InternalPort = 80

const (
	ruleNotAllowed = "not in network.allow"
	ruleWorker     = "worker's address"
)

// Policy is the egress policy of a run. It does not look up names. Its fields must not be
// changed after the first decision; then it is safe for concurrent use.
type Policy struct {
	Mode     Mode
	Allow    []Rule
	Deny     []netip.Prefix        // ranges that the operator refuses, even if Allow contains them
	DenyHost bool                  // refuse the worker's loopback and own addresses
	IsWorker func(netip.Addr) bool // reports whether an address is one of the worker's
	Internal map[string]string     // rules of the names that are served in this process, by name
}

// Decide returns the rule that allows a connection to d, or a refusal. If d has a name,
// the caller must check the addresses of the name with DecideAddr.
func (p *Policy) Decide(d Destination) (string, *Refusal) {
	switch {
	case p.IsInternal(d.Name) && d.Port == InternalPort:
		return p.Internal[d.Name], nil
	case p.IsInternal(d.Name):
		return "", Refuse("no such port", "%s has only port %d.", d.Name, InternalPort)
	case p.Mode == None:
		return "", Refuse("mode none", "The agent's definition gives it no network (network.mode is none), so %s cannot be reached.", d)
	case d.Port == 0 || d.Name == "" && !d.Addr.IsValid():
		return "", Refuse("no address", "%s is not an address that can be reached.", d)
	case d.Name == "":
		return p.DecideAddr(d.Addr, d.Port, d)
	case d.Name == stint.HostAlias:
		return p.DecideWorker(d.Port)
	case IsReserved(d.Name):
		return "", Refuse("unknown name", "%s does not exist in this sandbox.", d.Name)
	}
	return p.DecideName(d.Name, d.Port)
}

// IsInternal reports whether name is served in this process, in every mode.
func (p *Policy) IsInternal(name string) bool { return p.Internal[name] != "" }

// IsReserved reports whether name is one of the names that are never looked up:
// stint.internal, localhost, and all names below them.
func IsReserved(name string) bool {
	return name == "stint.internal" || strings.HasSuffix(name, ".stint.internal") || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// DecideName returns the rule that allows a name, or a refusal. Port 0 stands for any
// port: then a rule with any port may allow the name.
func (p *Policy) DecideName(name string, port uint16) (string, *Refusal) {
	if p.Mode == None {
		return "", Refuse("mode none", "The agent's definition gives it no network (network.mode is none), so %s cannot be reached.", name)
	}
	for _, r := range p.Allow {
		if r.MatchName(name, portFor(r, port)) {
			return "allow " + r.String(), nil
		}
	}
	if p.Mode == Public {
		return "public", nil
	}
	return "", Refuse(ruleNotAllowed, "The agent's definition does not allow %s. Add '%s' to network.allow.", name, name)
}

// DecideWorker returns the rule that allows a port of the worker's loopback interface,
// or a refusal. Port 0 stands for any port.
func (p *Policy) DecideWorker(port uint16) (string, *Refusal) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if p.DenyHost || p.denied(loopback) {
		return "", Refuse(stint.HostAlias+" is off", "The operator of this server does not let agents reach the worker's loopback, so %s cannot be reached.", stint.HostAlias)
	}
	for _, r := range p.Allow {
		if !r.Wildcard && r.Port != 0 && r.MatchName(stint.HostAlias, portFor(r, port)) {
			return "allow " + r.String(), nil
		}
	}
	return "", Refuse(ruleNotAllowed, "The agent's definition does not allow %s on this port. Add '%s:%d' to network.allow.", stint.HostAlias, stint.HostAlias, port)
}

// DecideAddr returns the rule that allows an address, or a refusal. a is the address of
// d or, if d has a name, an address of this name. Port 0 stands for any port. If d has a
// name and a is a public address, the decision on the name applies to a, and the returned
// rule is empty.
func (p *Policy) DecideAddr(a netip.Addr, port uint16, d Destination) (string, *Refusal) {
	target := effective(a)
	b, worker := blockOf(target), p.IsWorker(target)
	switch {
	case metadata[target] || metadata[a.Unmap().WithZone("")]:
		return "", Refuse("metadata address", "%s resolves to a metadata service, which no agent may reach.", d)
	case p.denied(a) || p.denied(target):
		return "", Refuse("denied by the operator", "%s resolves to an address which the operator of this server denies to all agents.", d)
	case p.DenyHost && target.IsLoopback():
		return "", Refuse("loopback address", "%s resolves to the worker's loopback, which the operator of this server does not let agents reach.", d)
	case worker && !target.IsLoopback():
		return p.decideWorkerAddr(a, target, port, d)
	}
	if b.kind == "" && d.Name != "" {
		return "", nil // the decision on the name applies
	}
	for _, r := range p.Allow {
		if r.MatchAddr(netip.AddrPortFrom(target, portFor(r, port))) && allows(r, a, target, b) {
			return "allow " + r.String(), nil
		}
	}
	switch {
	case b.kind == "" && p.Mode == Public:
		return "public", nil
	case b.kind == "":
		return "", Refuse(ruleNotAllowed, "The agent's definition does not allow %s. Add '%s' to network.allow, or reach it by a name that is allowed.", d, target)
	case b.allowable && d.Name != "":
		return "", Refuse(b.kind, "%s resolves to a %s. If this is intended, add the address itself to network.allow.", d, b.kind)
	case b.allowable:
		return "", Refuse(b.kind, "%s is a %s. If this is intended, add '%s' to network.allow.", d, b.kind, target)
	}
	return "", Refuse(b.kind, "%s resolves to a %s, which no agent may reach.", d, b.kind)
}

// decideWorkerAddr decides on one of the worker's own addresses. A firewall does not
// protect services at these addresses from connections of the worker itself. Therefore a
// rule must contain exactly this address and a port.
func (p *Policy) decideWorkerAddr(a, target netip.Addr, port uint16, d Destination) (string, *Refusal) {
	if p.DenyHost {
		return "", Refuse(ruleWorker, "%s resolves to the worker itself, which the operator of this server does not let agents reach.", d)
	}
	for _, r := range p.Allow {
		if r.Port != 0 && r.Prefix.IsSingleIP() && r.MatchAddr(netip.AddrPortFrom(target, portFor(r, port))) && a.Unmap().WithZone("") == target {
			return "allow " + r.String(), nil
		}
	}
	wanted := "PORT"
	if port != 0 {
		wanted = strconv.Itoa(int(port))
	}
	return "", Refuse(ruleWorker, "%s resolves to the worker itself. If this is intended, add '%s' to network.allow.", d, net.JoinHostPort(target.String(), wanted))
}

// allows reports whether a rule that matches the address target in block b allows it.
// For a special address, the rule's range must be within the block; for a loopback
// address, the rule must also have a port. If target is special and was embedded in
// another address a, it is never allowed.
func allows(r Rule, a, target netip.Addr, b addressBlock) bool {
	if b.kind == "" {
		return true
	}
	if !b.allowable || a.Unmap().WithZone("") != target || r.Prefix.Bits() < b.prefix.Bits() {
		return false
	}
	return !target.IsLoopback() || r.Port != 0
}

func (p *Policy) denied(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, d := range p.Deny {
		if d.Contains(a) {
			return true
		}
	}
	return false
}

// portFor returns the port to compare with the port of r. If port is 0, which stands for
// any port, this is the port of r itself.
func portFor(r Rule, port uint16) uint16 {
	if port == 0 {
		return r.Port
	}
	return port
}
