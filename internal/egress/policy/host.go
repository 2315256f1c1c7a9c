package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// HostMatches reports whether one of the patterns matches host and port. A pattern is a
// host name, an IP address, or "*.example.com" for all names below example.com but not
// example.com itself. Each may end in ":port"; a pattern without a port matches every
// port. Case and a final dot are ignored.
func HostMatches(patterns []string, host string, port uint16) bool {
	host = CanonicalHost(host)
	if host == "" {
		return false
	}
	for _, p := range patterns {
		name, wanted, ok := splitPattern(p)
		if !ok || wanted != 0 && wanted != port {
			continue
		}
		if suffix, wild := strings.CutPrefix(name, "*."); wild {
			if suffix != "" && len(host) > len(suffix)+1 && strings.HasSuffix(host, "."+CanonicalHost(suffix)) {
				return true
			}
		} else if CanonicalHost(name) == host {
			return true
		}
	}
	return false
}

// splitPattern splits a pattern into name and port. If the pattern has no port, port
// is 0. If the pattern is invalid, ok is false.
func splitPattern(p string) (name string, port uint16, ok bool) {
	if _, err := netip.ParseAddr(p); err == nil {
		return p, 0, true // in an IPv6 address without brackets, the last part is not a port
	}
	name, digits, found := CutPort(p)
	if !found {
		return name, 0, name != ""
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return name, uint16(n), err == nil && n > 0 && name != ""
}

// CutPort splits a text of the form host or host:port, in which an IPv6 address has
// brackets. found reports whether the text has a port. If brackets are malformed, host
// is empty and found is true.
func CutPort(s string) (host, port string, found bool) {
	if strings.HasPrefix(s, "[") {
		host, rest, ok := strings.Cut(s[1:], "]")
		if !ok {
			return "", "", true
		}
		port, found = strings.CutPrefix(rest, ":")
		if !found && rest != "" {
			return "", "", true
		}
		return host, port, found
	}
	return strings.Cut(s, ":")
}

// CanonicalHost returns the canonical form of a host name or IP address, or ""
// if host is neither.
func CanonicalHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return ""
		}
		return ip.Unmap().String()
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || len(name) > 253 || name[0] == '.' {
		return ""
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && (c != '.' || name[i-1] == '.') {
			return ""
		}
	}
	return name
}
