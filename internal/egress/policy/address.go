package policy

import (
	"net/netip"
)

// metadata contains the addresses at which clouds serve their machines. Some of these
// services return credentials to any client on the machine. No definition can allow
// these addresses.
var metadata = addresses(
	"169.254.169.254", "169.254.169.253", "169.254.169.250", "169.254.169.251", // metadata service of most clouds; their DNS and license activation
	"169.254.170.2", "169.254.170.23", // credentials of containers
	"169.254.0.23", "169.254.42.42", "169.254.10.10", // other clouds
	"100.100.100.200", "168.63.129.16", "192.0.0.192",
	"fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42",
)

// addressBlock is a range of addresses: special addresses, or the public internet.
type addressBlock struct {
	prefix    netip.Prefix
	kind      string // kind of the addresses; empty for the public internet
	allowable bool   // a rule with a range within the block may allow its addresses
}

// blocks is searched in order; the first block that contains an address applies. IPv4
// addresses in none of the blocks are public. IPv6 addresses are public only within
// 2000::/3.
var blocks = []addressBlock{
	special("10.0.0.0/8", "private address", true),
	special("172.16.0.0/12", "private address", true),
	special("192.168.0.0/16", "private address", true),
	special("127.0.0.0/8", "loopback address", true),
	special("169.254.0.0/16", "link-local address", true),
	special("100.64.0.0/10", "shared address", true),
	special("198.18.0.0/15", "benchmark address", true),
	special("192.0.2.0/24", "documentation address", true),
	special("198.51.100.0/24", "documentation address", true),
	special("203.0.113.0/24", "documentation address", true),
	special("192.0.0.0/24", "reserved address", true),
	special("192.88.99.0/24", "relay address", false),
	special("0.0.0.0/8", "unspecified address", false),
	special("224.0.0.0/4", "multicast address", false),
	special("240.0.0.0/4", "reserved address", false),
	special("::/128", "unspecified address", false),
	special("::1/128", "loopback address", true),
	special("fc00::/7", "private address", true),
	special("fe80::/10", "link-local address", false), // not usable without a zone
	special("fec0::/10", "private address", true),
	special("ff00::/8", "multicast address", false),
	special("2001:db8::/32", "documentation address", true),
	special("3fff::/20", "documentation address", true),
	special("2001::/32", "Teredo address", false),
	special("2001::/23", "reserved address", false),
	special("64:ff9b:1::/48", "translated address", false),
	special("2000::/3", "", false),
	special("::/0", "reserved address", false),
}

// embeddings contains the IPv6 ranges in which each address contains an IPv4 address.
// offset is the number of bytes before the IPv4 address.
var embeddings = []struct {
	prefix netip.Prefix
	offset int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
}

func special(prefix, kind string, allowable bool) addressBlock {
	return addressBlock{netip.MustParsePrefix(prefix), kind, allowable}
}

func addresses(texts ...string) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(texts))
	for _, t := range texts {
		set[netip.MustParseAddr(t)] = true
	}
	return set
}

// effective returns the address that packets to a reach. This is the IPv4 address in a,
// if there is one, and otherwise a without its zone.
func effective(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || a == netip.IPv6Unspecified() || a == netip.IPv6Loopback() {
		return a
	}
	for _, e := range embeddings {
		if e.prefix.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[e.offset : e.offset+4]))
		}
	}
	return a
}

// blockOf returns the block that contains an effective address. For public IPv4
// addresses it returns the zero value.
func blockOf(a netip.Addr) addressBlock {
	for _, b := range blocks {
		if b.prefix.Contains(a) {
			return b
		}
	}
	return addressBlock{}
}
