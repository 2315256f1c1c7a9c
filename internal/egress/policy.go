package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// Mode is a definition's network.mode.
type Mode string

// The modes.
const (
	Public     Mode = "public" // the public internet, and what allow names
	Restricted Mode = "restricted"
	None       Mode = "none"
)

// notAllowed is the reason where nothing speaks for a destination.
const notAllowed = "not in network.allow"

// workerAddress is the reason where a destination is the worker itself.
const workerAddress = "worker's address"

// policy decides. It looks no name up and never changes.
type policy struct {
	mode     Mode
	allow    []stint.Rule
	deny     []netip.Prefix
	denyHost bool
	host     func(netip.Addr) bool // one of the worker's own addresses
	own      map[string]string     // names that are answered in this process, with their rules
}

// dest is where a connection wants to go: a name in canonical form, or an
// address.
type dest struct {
	name string
	addr netip.Addr // valid when name is empty
	port uint16
}

func (d dest) host() string {
	if d.name != "" {
		return d.name
	}
	return d.addr.String()
}

func (d dest) String() string {
	if d.port == 0 {
		return d.host()
	}
	return net.JoinHostPort(d.host(), strconv.Itoa(int(d.port)))
}

// decide tells which rule lets a connection begin, or why none does. The
// addresses of a name are checked apart, by address.
func (p *policy) decide(d dest) (string, *proxy.Refusal) {
	switch {
	case p.offers(d.name) && d.port == ownPort:
		return p.own[d.name], nil
	case p.offers(d.name):
		return "", refusal("no such port", "%s answers on port %d alone.", d.name, ownPort)
	case p.mode == None:
		return "", refusal("mode none", "The agent's definition gives it no network (network.mode is none), so %s is out of reach.", d)
	case d.port == 0 || d.name == "" && !d.addr.IsValid():
		return "", refusal("no address", "%s is no address that can be reached.", d)
	case d.name == "":
		return p.address(d.addr, d.port, d)
	case d.name == stint.HostAlias:
		return p.worker(d.port)
	case ownName(d.name):
		return "", refusal("unknown name", "%s leads nowhere from here.", d.name)
	}
	return p.named(d.name, d.port)
}

// offers tells the names that are answered in this process, in every mode.
func (p *policy) offers(name string) bool { return p.own[name] != "" }

// ownName tells the names that are never looked up.
func ownName(name string) bool {
	return name == "stint.internal" || strings.HasSuffix(name, ".stint.internal") || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// named decides for a name; port 0 asks whether any port may be reached.
func (p *policy) named(name string, port uint16) (string, *proxy.Refusal) {
	if p.mode == None {
		return "", refusal("mode none", "The agent's definition gives it no network (network.mode is none), so %s is out of reach.", name)
	}
	for _, r := range p.allow {
		if r.MatchName(name, cmpPort(r, port)) {
			return "allow " + r.String(), nil
		}
	}
	if p.mode == Public {
		return "public", nil
	}
	return "", refusal(notAllowed, "The agent's definition does not allow %s. Add '%s' to network.allow.", name, name)
}

// worker decides for the worker's loopback; port 0 asks for any.
func (p *policy) worker(port uint16) (string, *proxy.Refusal) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if p.denyHost || p.denied(loopback) {
		return "", refusal(stint.HostAlias+" is off", "The operator of this server keeps agents from the worker's loopback, so %s is out of reach.", stint.HostAlias)
	}
	for _, r := range p.allow {
		if !r.Wildcard && r.Port != 0 && r.MatchName(stint.HostAlias, cmpPort(r, port)) {
			return "allow " + r.String(), nil
		}
	}
	return "", refusal(notAllowed, "The agent's definition does not allow %s on this port. Add '%s:%d' to network.allow.", stint.HostAlias, stint.HostAlias, port)
}

// address decides for an address that was asked for itself, or that the name
// of d has, where d bears one. Port 0 asks for any port.
func (p *policy) address(a netip.Addr, port uint16, d dest) (string, *proxy.Refusal) {
	lead := bare(a)
	b, worker := blockOf(lead), p.host(lead)
	switch {
	case metadata[lead] || metadata[a.Unmap().WithZone("")]:
		return "", refusal("metadata address", "%s leads to a metadata service, which no agent may reach.", d)
	case p.denied(a) || p.denied(lead):
		return "", refusal("denied by the operator", "%s leads to an address that the operator of this server refuses to all agents.", d)
	case p.denyHost && lead.IsLoopback():
		return "", refusal("loopback address", "%s leads to the worker's loopback, which the operator of this server keeps from agents.", d)
	case worker && !lead.IsLoopback():
		return p.workers(a, lead, port, d)
	}
	if b.kind == "" && d.name != "" {
		return "", nil // the name was decided on
	}
	for _, r := range p.allow {
		if r.MatchAddr(netip.AddrPortFrom(lead, cmpPort(r, port))) && opens(r, a, lead, b) {
			return "allow " + r.String(), nil
		}
	}
	switch {
	case b.kind == "" && p.mode == Public:
		return "public", nil
	case b.kind == "":
		return "", refusal(notAllowed, "The agent's definition does not allow %s. Add '%s' to network.allow, or reach it by a name that is allowed.", d, lead)
	case b.openable && d.name != "":
		return "", refusal(b.kind, "%s leads to a %s. Where that is meant, add the address itself to network.allow.", d, b.kind)
	case b.openable:
		return "", refusal(b.kind, "%s is a %s. Where that is meant, add '%s' to network.allow.", d, b.kind, lead)
	}
	return "", refusal(b.kind, "%s leads to a %s, which no agent may reach.", d, b.kind)
}

// workers decides for an address of the worker's own, behind which lies all
// that listens there, whatever shields it from others: only the address itself
// with the port opens it.
func (p *policy) workers(a, lead netip.Addr, port uint16, d dest) (string, *proxy.Refusal) {
	if p.denyHost {
		return "", refusal(workerAddress, "%s leads to the worker itself, which the operator of this server keeps from agents.", d)
	}
	for _, r := range p.allow {
		if r.Port != 0 && r.Prefix.IsSingleIP() && r.MatchAddr(netip.AddrPortFrom(lead, cmpPort(r, port))) && a.Unmap().WithZone("") == lead {
			return "allow " + r.String(), nil
		}
	}
	wanted := "PORT"
	if port != 0 {
		wanted = strconv.Itoa(int(port))
	}
	return "", refusal(workerAddress, "%s leads to the worker itself. Where that is meant, add '%s' to network.allow.", d, net.JoinHostPort(lead.String(), wanted))
}

// opens tells whether a rule that matches is meant for an address of block b:
// for a special one it must lie within the block, and name the port of
// loopback. Special addresses in the dress of others are not opened at all.
func opens(r stint.Rule, a, lead netip.Addr, b block) bool {
	if b.kind == "" {
		return true
	}
	if !b.openable || a.Unmap().WithZone("") != lead || r.Prefix.Bits() < b.prefix.Bits() {
		return false
	}
	return !lead.IsLoopback() || r.Port != 0
}

func (p *policy) denied(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, d := range p.deny {
		if d.Contains(a) {
			return true
		}
	}
	return false
}

// cmpPort is the port to compare with r's: its own when any will do.
func cmpPort(r stint.Rule, port uint16) uint16 {
	if port == 0 {
		return r.Port
	}
	return port
}

func refusal(rule, format string, args ...any) *proxy.Refusal {
	return &proxy.Refusal{Rule: rule, Message: fmt.Sprintf(format, args...)}
}
