package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
)

// Rule is one entry of a definition's network.allow: a domain, all names below
// a domain, or a range of addresses, on one port or on all ports.
type Rule struct {
	Domain   string       // lower case, without a final dot; empty for addresses
	Wildcard bool         // matches the names below Domain, but not Domain itself
	Prefix   netip.Prefix // valid when Domain is empty
	Port     uint16       // 0 means every port
}

// ParseRule parses a rule of the form `domain`, `*.domain`, an address, or a CIDR range,
// each with an optional `:port`. An IPv6 address with a port must be in brackets:
// `[2001:db8::1]:443`. The error is a sentence for the user about the necessary change.
func ParseRule(s string) (Rule, error) {
	if s == "" {
		return Rule{}, userError("An entry may not be empty: write a domain, *.domain, an IP address or a CIDR range.")
	}
	if strings.Contains(s, "://") {
		return Rule{}, userError("'%s' is a URL: write only its host, with the port if needed.", stint.Excerpt(s, 128))
	}
	host, port, err := cutRulePort(s)
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

// userError returns an error with a complete sentence for a user.
func userError(format string, args ...any) error { return fmt.Errorf(format, args...) }

// cutRulePort splits s into host and port and removes the brackets of an IPv6 address.
// If s has no port, port is 0.
func cutRulePort(s string) (host string, port uint16, err error) {
	host, digits, named := s, "", false
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		var rest string
		host, rest, bracketed = strings.Cut(inner, "]")
		digits, named = strings.CutPrefix(rest, ":")
		if !bracketed || !strings.Contains(host, ":") || rest != "" && !named {
			return "", 0, userError("'%s' has brackets in the wrong place: write [2001:db8::1]:443 for an IPv6 address with a port.", stint.Excerpt(s, 128))
		}
	} else if strings.Count(s, ":") == 1 {
		host, digits, named = strings.Cut(s, ":")
	}
	if !named {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] < '1' || digits[0] > '9' {
		return "", 0, userError("'%s' does not have a valid port: write a number from 1 to 65535 after the colon, or omit both for every port.", stint.Excerpt(s, 128))
	}
	return host, uint16(n), nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// parsePrefix parses an address or a CIDR range.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return netip.Prefix{}, userError("'%s' is not a plain address: omit the zone and write IPv4 as four decimal numbers.", stint.Excerpt(s, 128))
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, userError("'%s' is not an address range: write it like 10.0.0.0/8 or 2001:db8::/32.", stint.Excerpt(s, 128))
	case p.Addr().Is4In6():
		return netip.Prefix{}, userError("'%s' is an IPv4-mapped range: write the IPv4 range itself, like 10.0.0.0/8.", stint.Excerpt(s, 128))
	case p != p.Masked():
		return netip.Prefix{}, userError("'%s' has bits beyond its length: write %s.", stint.Excerpt(s, 128), p.Masked())
	}
	return p, nil
}

// checkOwnNames returns an error if the rule is for localhost, stint.internal, or a name
// below them, except stint.HostAlias with a port. s is the text of the rule.
func (r Rule) checkOwnNames(s string) error {
	switch {
	case !r.Wildcard && r.Domain == stint.HostAlias && r.Port != 0:
		return nil
	case !r.Wildcard && r.Domain == stint.HostAlias:
		return userError("'%s' needs the port: write %s:8080 for port 8080 of the worker's loopback.", stint.Excerpt(s, 128), stint.HostAlias)
	case r.Domain == "stint.internal" || strings.HasSuffix(r.Domain, ".stint.internal"):
		return userError("'%s' cannot be allowed: of these names only %s:PORT can.", stint.Excerpt(s, 128), stint.HostAlias)
	case r.Domain == "localhost" || strings.HasSuffix(r.Domain, ".localhost"):
		return userError("'%s' is the sandbox itself: for the worker's loopback write %s:PORT.", stint.Excerpt(s, 128), stint.HostAlias)
	}
	return nil
}

// CanonicalDomain returns a domain name in lower case without a final dot. It returns an
// error if s is not a domain name, contains characters beyond ASCII, or is a number that
// other programs parse as an address (2130706433, 0x7f.1). The error is a sentence for
// the user.
func CanonicalDomain(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if name == "" || len(name) > 253 {
		return "", userError("'%s' is not a domain: a domain has 1 to 253 characters.", stint.Excerpt(s, 128))
	}
	for _, c := range []byte(name) {
		if c >= 0x80 {
			return "", userError("'%s' has characters beyond ASCII: write the domain in its xn-- form.", stint.Excerpt(s, 128))
		}
		if c == '*' {
			return "", userError("'%s' has '*' in the wrong place: only '*.' before a domain is allowed and means all names below it.", stint.Excerpt(s, 128))
		}
	}
	name = strings.ToLower(name)
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if !isLabel(l) {
			return "", userError("'%s' is not a domain: each label has 1 to 63 letters, digits, '-', and '_', without '-' at either end.", stint.Excerpt(s, 128))
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "", userError("'%s' is neither a domain nor an address: write an IPv4 address as four decimal numbers, like 192.0.2.1.", stint.Excerpt(s, 128))
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

// isNumber reports whether l is a decimal or hexadecimal number. If the last label of a
// name is a number, other programs parse the name as an address.
func isNumber(l string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		l, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(l, digits) == ""
}

// MatchName reports whether the rule matches a port of host, which must be a name in
// canonical form. A rule for addresses matches no name.
func (r Rule) MatchName(host string, port uint16) bool {
	if r.Domain == "" || r.Port != 0 && r.Port != port {
		return false
	}
	if r.Wildcard {
		return len(host) > len(r.Domain)+1 && strings.HasSuffix(host, "."+r.Domain)
	}
	return host == r.Domain
}

// MatchAddr reports whether the rule matches an address and port. An IPv4-mapped IPv6
// address is treated as the IPv4 address. A rule for a domain matches no address.
func (r Rule) MatchAddr(a netip.AddrPort) bool {
	if r.Domain != "" || r.Port != 0 && r.Port != a.Port() {
		return false
	}
	return r.Prefix.Contains(a.Addr().Unmap().WithZone(""))
}

// String returns the rule in the form that ParseRule parses.
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
