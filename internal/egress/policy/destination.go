package policy

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Destination is the target of a connection: a name in canonical form, or an
// address.
type Destination struct {
	Name string
	Addr netip.Addr // valid if Name is empty
	Port uint16
}

// ParseDestination returns the destination for a host and a port. The host is a name or
// an address. If it is invalid, the error is a sentence for the user.
func ParseDestination(host string, port uint16) (Destination, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return Destination{Addr: a.Unmap().WithZone(""), Port: port}, nil
	}
	name, err := CanonicalDomain(host)
	if err != nil {
		return Destination{}, err
	}
	return Destination{Name: name, Port: port}, nil
}

// Host returns the name or, if the name is empty, the address.
func (d Destination) Host() string {
	if d.Name != "" {
		return d.Name
	}
	return d.Addr.String()
}

// String returns host:port, or the host alone if the port is 0.
func (d Destination) String() string {
	if d.Port == 0 {
		return d.Host()
	}
	return net.JoinHostPort(d.Host(), strconv.Itoa(int(d.Port)))
}

// Refusal is the error of a destination that the policy forbids. Rule is the
// reason in a few words; Message is a sentence for the user.
type Refusal struct{ Rule, Message string }

// Error returns the message.
func (r Refusal) Error() string { return r.Message }

// Refuse returns a refusal with a formatted message.
func Refuse(rule, format string, args ...any) *Refusal {
	return &Refusal{Rule: rule, Message: fmt.Sprintf(format, args...)}
}
