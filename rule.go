package stint

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The names that mean something inside every sandbox with a network.
const (
	HostAlias  = "host.stint.internal"  // the worker's loopback, where a rule names it with its port
	ProxyAlias = "proxy.stint.internal" // an explicit HTTP proxy on every port
	ModelAlias = "model.stint.internal" // the model of the agent's provider, on port 80
	APIAlias   = "api.stint.internal"   // Stint itself, for agents that are given it, on port 80
)

// Rule is one entry of a definition's network.allow: a domain, every name
// below a domain, or a range of addresses, on one port or on all.
type Rule struct {
	Domain   string       // lower case, no dot at its end; empty for addresses
	Wildcard bool         // the names below Domain, not Domain itself
	Prefix   netip.Prefix // valid when Domain is empty
	Port     uint16       // 0 is every port
}

// ParseRule reads `domain`, `*.domain`, an address or a CIDR range, each with
// an optional `:port`; IPv6 with a port stands in brackets: `[2001:db8::1]:443`.
// The error is a sentence that says what to change.
func ParseRule(s string) (Rule, error) {
	if s == "" {
		return Rule{}, sentence("An entry may not be empty: write a domain, *.domain, an IP address or a CIDR range.")
	}
	if strings.Contains(s, "://") {
		return Rule{}, sentence("'%s' is a URL: write its host alone, with the port where one is meant.", clip(s, 128))
	}
	host, port, err := cutPort(s)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{Port: port}
	if strings.ContainsAny(host, ":/") || isAddress(host) {
		r.Prefix, err = parsePrefix(host)
		return r, err
	}
	host, r.Wildcard = strings.CutPrefix(host, "*.")
	r.Domain, err = CanonicalDomain(host)
	if err != nil {
		return Rule{}, err
	}
	return r, r.checkOwnNames(s)
}

// sentence makes an error that a user reads as it is.
func sentence(format string, args ...any) error { return fmt.Errorf(format, args...) }

// cutPort splits the port from s and the brackets from an IPv6 address.
func cutPort(s string) (host string, port uint16, err error) {
	host, digits, named := s, "", false
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		var rest string
		host, rest, bracketed = strings.Cut(inner, "]")
		digits, named = strings.CutPrefix(rest, ":")
		if !bracketed || !strings.Contains(host, ":") || rest != "" && !named {
			return "", 0, sentence("'%s' has brackets in the wrong place: write [2001:db8::1]:443 for an IPv6 address with a port.", clip(s, 128))
		}
	} else if strings.Count(s, ":") == 1 {
		host, digits, named = strings.Cut(s, ":")
	}
	if !named {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] < '1' || digits[0] > '9' {
		return "", 0, sentence("'%s' has no valid port: write a number from 1 to 65535 after the colon, or leave both away for every port.", clip(s, 128))
	}
	return host, uint16(n), nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// parsePrefix reads an address or a CIDR range.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return netip.Prefix{}, sentence("'%s' is no plain address: leave the zone away and write IPv4 as four decimal numbers.", clip(s, 128))
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, sentence("'%s' is no address range: write it like 10.0.0.0/8 or 2001:db8::/32.", clip(s, 128))
	case p.Addr().Is4In6():
		return netip.Prefix{}, sentence("'%s' is an IPv4 range in IPv6 dress: write the IPv4 range itself, like 10.0.0.0/8.", clip(s, 128))
	case p != p.Masked():
		return netip.Prefix{}, sentence("'%s' has bits beyond its length: write %s.", clip(s, 128), p.Masked())
	}
	return p, nil
}

// checkOwnNames holds the rule to what the sandbox's own names mean.
func (r Rule) checkOwnNames(s string) error {
	switch {
	case !r.Wildcard && r.Domain == HostAlias && r.Port != 0:
		return nil
	case !r.Wildcard && r.Domain == HostAlias:
		return sentence("'%s' needs the port: write %s:8080 for port 8080 of the worker's loopback.", clip(s, 128), HostAlias)
	case r.Domain == "stint.internal" || strings.HasSuffix(r.Domain, ".stint.internal"):
		return sentence("'%s' cannot be given: of these names only %s:PORT can.", clip(s, 128), HostAlias)
	case r.Domain == "localhost" || strings.HasSuffix(r.Domain, ".localhost"):
		return sentence("'%s' is the sandbox itself: for the worker's loopback write %s:PORT.", clip(s, 128), HostAlias)
	}
	return nil
}

// CanonicalDomain gives a domain name in lower case without the dot at its
// end. Names in other scripts are taken as punycode only; what other programs
// read as a number (2130706433, 0x7f.1) is no domain. The error is a sentence.
func CanonicalDomain(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if name == "" || len(name) > 253 {
		return "", sentence("'%s' is no domain: a domain has 1 to 253 characters.", clip(s, 128))
	}
	for _, c := range []byte(name) {
		if c >= 0x80 {
			return "", sentence("'%s' has characters beyond ASCII: write the domain in its xn-- form.", clip(s, 128))
		}
		if c == '*' {
			return "", sentence("'%s' has '*' in the wrong place: only '*.' in front of a domain stands for the names below it.", clip(s, 128))
		}
	}
	name = strings.ToLower(name)
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if !isLabel(l) {
			return "", sentence("'%s' is no domain: between the dots stand 1 to 63 letters, digits, '-' and '_', with no '-' at either end.", clip(s, 128))
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "", sentence("'%s' is neither a domain nor an address: write an IPv4 address as four decimal numbers, like 192.0.2.1.", clip(s, 128))
	}
	return name, nil
}

func isLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for _, c := range []byte(l) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// isNumber tells what makes other programs read the whole as an address: a
// last label of digits, or hexadecimal.
func isNumber(l string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		l, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(l, digits) == ""
}

// MatchName reports whether the rule names host, in canonical form, on port.
// A rule of addresses names none.
func (r Rule) MatchName(host string, port uint16) bool {
	if r.Domain == "" || r.Port != 0 && r.Port != port {
		return false
	}
	if r.Wildcard {
		return len(host) > len(r.Domain)+1 && strings.HasSuffix(host, "."+r.Domain)
	}
	return host == r.Domain
}

// MatchAddr reports whether the rule names the address; an IPv4 address in
// IPv6 dress is the IPv4 address.
func (r Rule) MatchAddr(a netip.AddrPort) bool {
	if r.Domain != "" || r.Port != 0 && r.Port != a.Port() {
		return false
	}
	return r.Prefix.Contains(a.Addr().Unmap().WithZone(""))
}

// String writes the rule so that ParseRule reads it back.
func (r Rule) String() string {
	host := r.Domain
	switch {
	case r.Wildcard:
		host = "*." + host
	case host == "" && r.Prefix.IsSingleIP():
		host = r.Prefix.Addr().String()
	case host == "":
		host = r.Prefix.String()
	}
	if r.Port == 0 {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(r.Port))
}
