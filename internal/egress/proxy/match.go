package proxy

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// HostMatches tells whether one of patterns is about host and port. A pattern
// is a host name, an IP address, or "*.example.com" for all names below
// example.com and not itself; each with an optional ":port". Case and a final
// dot do not matter.
func HostMatches(patterns []string, host string, port uint16) bool {
	host = canonicalHost(host)
	if host == "" {
		return false
	}
	for _, p := range patterns {
		name, wanted, ok := splitPattern(p)
		if !ok || wanted != 0 && wanted != port {
			continue
		}
		if suffix, wild := strings.CutPrefix(name, "*."); wild {
			if suffix != "" && len(host) > len(suffix)+1 && strings.HasSuffix(host, "."+canonicalHost(suffix)) {
				return true
			}
		} else if canonicalHost(name) == host {
			return true
		}
	}
	return false
}

// splitPattern gives the port as 0 where there is none.
func splitPattern(p string) (name string, port uint16, ok bool) {
	if _, err := netip.ParseAddr(p); err == nil {
		return p, 0, true // IPv6 without brackets, whose last part is no port
	}
	name, digits, found := cutPort(p)
	if !found {
		return name, 0, name != ""
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return name, uint16(n), err == nil && n > 0 && name != ""
}

// cutPort cuts host[:port], in which an IPv6 address has brackets.
func cutPort(s string) (host, port string, found bool) {
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

// canonicalHost gives the one spelling of a host name or IP address, "" for
// what is neither.
func canonicalHost(host string) string {
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

// hostPort is host:port as a URL has it, without the scheme's own port.
func hostPort(scheme, host string, port uint16) string {
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		if strings.Contains(host, ":") {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
