// Package policy decides which destinations a sandbox may reach.
//
// Decisions are made by name. The caller looks a name up and asks again for
// each of its addresses, because a name that is allowed may have an address
// that is not.
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
	Public     Mode = "public"     // the public internet, and Allow
	Restricted Mode = "restricted" // Allow only
	None       Mode = "none"
)

// InternalPort is the only port of the internal names.
const InternalPort = 80

const (
	ruleNotAllowed = "not in network.allow"
	ruleWorker     = "worker's address"
)

// Policy is the egress policy of a run. It does not look names up. Its fields
// are not changed after the first decision.
type Policy struct {
	Mode     Mode
	Allow    []Rule
	Deny     []netip.Prefix        // refused by the operator, whatever Allow contains
	DenyHost bool                  // refuse the worker's loopback and own addresses
	IsWorker func(netip.Addr) bool // reports whether an address is one of the worker's
	Internal map[string]string     // names that are served in this process, with their rules
}

// Decide returns the rule that allows a connection to d, or a refusal. The
// addresses of a name are checked separately by DecideAddr.
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

// IsReserved reports whether name is never looked up.
func IsReserved(name string) bool {
	return name == "stint.internal" || strings.HasSuffix(name, ".stint.internal") || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// DecideName decides on a name. Port 0 means any port.
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

// DecideWorker decides on the worker's loopback. Port 0 means any port.
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

// DecideAddr decides on an address: the destination d itself or, if d has a
// name, an address of this name. Port 0 means any port. The rule is empty if
// the decision on the name applies.
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
		return "", nil // the name was decided on
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

// decideWorkerAddr decides on one of the worker's own addresses. A firewall
// does not protect the services there from the worker itself, so a rule must
// contain exactly this address and a port.
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

// allows reports whether a matching rule applies to an address of block b. For
// a special address, the rule's range must be within the block, and loopback
// needs a port. A special address embedded in another address is never allowed.
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

// portFor returns the port to compare with r's port: r's own if any port will do.
func portFor(r Rule, port uint16) uint16 {
	if port == 0 {
		return r.Port
	}
	return port
}
