package egress_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

const site = "93.184.216.34" // an address in the public internet

func TestNamesByMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  policy.Mode
		allow string
		name  string
		rule  string // the refusing rule; empty if the name resolves
	}{
		{"", "", "example.com", ""},
		{policy.Public, "", "example.com", ""},
		{policy.Public, "", "host.stint.internal", "not in network.allow"},
		{policy.Public, "host.stint.internal:80", "host.stint.internal", ""},
		{policy.Public, "", "other.stint.internal", "unknown name"},
		{policy.Public, "", "proxy.stint.internal", ""},
		{policy.Restricted, "", "example.com", "not in network.allow"},
		{policy.Restricted, "example.com", "example.com", ""},
		{policy.Restricted, "example.com:443", "example.com", ""},
		{policy.Restricted, "example.com", "www.example.com", "not in network.allow"},
		{policy.Restricted, "*.example.com", "www.example.com", ""},
		{policy.Restricted, "*.example.com", "example.com", "not in network.allow"},
		{policy.Restricted, "", "host.stint.internal", "not in network.allow"},
		{policy.Restricted, "host.stint.internal:80", "host.stint.internal", ""},
		{policy.Restricted, "", "proxy.stint.internal", ""},
		{policy.None, "example.com", "example.com", "mode none"},
		{policy.None, "", "proxy.stint.internal", "mode none"},
		{policy.None, "host.stint.internal:80", "host.stint.internal", "mode none"},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.mode, c.allow, c.name), func(t *testing.T) {
			t.Parallel()
			w := newTestInternet()
			w.name("example.com", site)
			w.name("www.example.com", site)
			b := w.open(t, options{mode: c.mode, allow: strings.Fields(c.allow)})
			addr, err := b.lookup(c.name)
			if c.rule == "" {
				if err != nil || !netip.MustParsePrefix("198.18.0.0/15").Contains(netip.MustParseAddr(addr)) {
					t.Fatalf("%s is %s, %v", c.name, addr, err)
				}
				return
			}
			if e, ok := errors.AsType[*net.DNSError](err); !ok || !e.IsNotFound {
				t.Fatalf("%s is %s, %v, want no such host", c.name, addr, err)
			}
			if e := b.denied(c.rule); e.Host != c.name || e.Protocol != "dns" {
				t.Errorf("entry %+v", e)
			}
			if asked := w.lookups(); len(asked) > 0 {
				t.Errorf("a refused name was looked up: %v", asked)
			}
		})
	}
}

// special contains addresses that are refused as the address of a name, with the refusing
// rule.
var special = map[string]string{
	"10.0.0.1": "private address", "172.16.0.1": "private address", "172.31.255.255": "private address", "192.168.1.1": "private address",
	"127.0.0.1": "loopback address", "127.255.255.254": "loopback address", "0.0.0.0": "unspecified address", "0.1.2.3": "unspecified address",
	"169.254.1.1": "link-local address", "100.64.0.1": "shared address", "100.127.255.255": "shared address",
	"192.0.0.1": "reserved address", "192.0.2.1": "documentation address", "198.18.0.1": "benchmark address", "198.19.255.255": "benchmark address",
	"198.51.100.1": "documentation address", "203.0.113.1": "documentation address", "192.88.99.1": "relay address",
	"224.0.0.1": "multicast address", "239.255.255.255": "multicast address", "240.0.0.1": "reserved address", "255.255.255.255": "reserved address",
	"::": "unspecified address", "::1": "loopback address", "fc00::1": "private address", "fdff::1": "private address",
	"fe80::1": "link-local address", "febf::1": "link-local address", "fec0::1": "private address", "ff02::1": "multicast address",
	"2001:db8::1": "documentation address", "3fff::1": "documentation address", "100::1": "reserved address", "4000::1": "reserved address",
	"2001::1": "Teredo address", "2001:0:a9fe:a9fe::": "Teredo address", "2001:10::1": "reserved address", "64:ff9b:1::a00:1": "translated address",
	"::ffff:10.0.0.1": "private address", "::ffff:127.0.0.1": "loopback address", "::ffff:0:10.0.0.1": "private address", "::10.0.0.1": "private address",
	"64:ff9b::10.0.0.1": "private address", "64:ff9b::7f00:1": "loopback address", "2002:a00:1::1": "private address", "2002:7f00:1::": "loopback address",
	"169.254.169.254": "metadata address", "169.254.170.2": "metadata address", "100.100.100.200": "metadata address", "168.63.129.16": "metadata address",
	"192.0.0.192": "metadata address", "fd00:ec2::254": "metadata address", "::ffff:169.254.169.254": "metadata address",
	"64:ff9b::169.254.169.254": "metadata address", "2002:a9fe:a9fe::": "metadata address", "::a9fe:a9fe": "metadata address",
}

func TestNamesWithSpecialAddresses(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"*.trap.example", "0.0.0.0/0", "::/0"}})
	i := 0
	for addr, rule := range special {
		i++
		name := fmt.Sprintf("n%d.trap.example", i)
		w.name(name, addr)
		if got, err := b.lookup(name); err == nil {
			t.Errorf("a name for %s is %s", addr, got)
			continue
		}
		b.await(addr+" refused by "+rule, func(e log.Entry) bool { return e.Host == name && e.Action == log.Deny && e.Rule == rule })
	}
	if dials := w.dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestSpecialAddresses(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	b := w.open(t, options{mode: policy.Public, allow: []string{"0.0.0.0/0", "::/0"}})
	for addr, rule := range special {
		a := netip.MustParseAddr(addr)
		if a.Unmap().Is4() && netip.MustParsePrefix("198.18.0.0/15").Contains(a.Unmap()) {
			rule = "unknown address"
		}
		c := b.connectSending(netip.AddrPortFrom(a, 80).String())
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x.example\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 12)
		if _, err := c.Read(got); err != nil || string(got) != "HTTP/1.1 403" {
			t.Errorf("%s returns %q, %v", addr, got, err)
		}
		b.await(addr+" refused by "+rule, func(e log.Entry) bool { return e.Action == log.Deny && e.Rule == rule && e.Status == 403 })
	}
	if dials := w.dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestNumbersAreNotNames(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	b := w.open(t, options{})
	for _, name := range []string{"2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1", "8.8.8.8", "1.2.3.4.5"} {
		if addr, err := b.query(name); err == nil {
			t.Errorf("%s is %s", name, addr)
		}
		b.await(name+" refused", func(e log.Entry) bool { return e.Host == name+"." && e.Rule == "no host name" })
	}
	if asked := w.lookups(); len(asked) > 0 {
		t.Errorf("looked up %v", asked)
	}
}

func TestAllowedRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode     policy.Mode
		allow    string
		target   string // ADDRESS:PORT, or NAME=ADDRESS:PORT for a name with this address
		reaches  bool
		ruleSays string
	}{
		{policy.Public, "", site + ":7", true, "public"},
		{policy.Restricted, "", site + ":7", false, "not in network.allow"},
		{policy.Restricted, "93.184.0.0/16", site + ":7", true, "allow 93.184.0.0/16"},
		{policy.Restricted, "0.0.0.0/0:7", site + ":7", true, "allow 0.0.0.0/0:7"},
		{policy.Restricted, "93.184.0.0/16:8", site + ":7", false, "not in network.allow"},
		{policy.Public, "10.0.0.0/8", "10.1.2.3:7", true, "allow 10.0.0.0/8"},
		{policy.Public, "10.1.2.3:7", "10.1.2.3:7", true, "allow 10.1.2.3:7"},
		{policy.Public, "10.1.2.3:8", "10.1.2.3:7", false, "private address"},
		{policy.Public, "8.0.0.0/5", "10.1.2.3:7", false, "private address"},
		{policy.Public, "169.254.0.0/16", "169.254.1.1:7", true, "allow 169.254.0.0/16"},
		{policy.Public, "169.254.0.0/16 169.254.169.254", "169.254.169.254:7", false, "metadata address"},
		{policy.Public, "10.0.0.0/8", "10.66.0.1:7", false, "denied by the operator"},
		{policy.Public, "", "9.9.9.9:7", false, "denied by the operator"},
		{policy.Restricted, "db.example 10.0.0.0/8", "db.example=10.1.2.3:7", true, "allow 10.0.0.0/8"},
		{policy.Restricted, "10.0.0.0/8", "db.example=10.1.2.3:7", false, "not in network.allow"},
		{policy.Public, "127.0.0.1:7", "db.example=127.0.0.1:7", true, "allow 127.0.0.1:7"},
		{policy.Public, "127.0.0.0/8", "db.example=127.0.0.1:7", false, "loopback address"},
		{policy.Public, "fd00::/8", "db.example=fd00::1:7", true, "allow fd00::/8"},
		{policy.None, "10.0.0.0/8", "10.1.2.3:7", false, "mode none"},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.mode, c.allow, c.target), func(t *testing.T) {
			t.Parallel()
			w := newTestInternet()
			w.serve(t, echo, site+":7", "10.1.2.3:7", "169.254.1.1:7", "169.254.169.254:7", "10.66.0.1:7", "9.9.9.9:7", "127.0.0.1:7", "[fd00::1]:7")
			b := w.open(t, options{mode: c.mode, allow: strings.Fields(c.allow), config: func(c *egress.Config) {
				c.Deny = []netip.Prefix{netip.MustParsePrefix("10.66.0.0/16"), netip.MustParsePrefix("::ffff:9.9.9.9/128")}
			}})
			target := c.target
			if name, rest, named := strings.Cut(c.target, "="); named {
				addr, _ := strings.CutSuffix(rest, ":7")
				w.name(name, addr)
				pinned, err := b.lookup(name)
				if err != nil && !c.reaches {
					b.denied(c.ruleSays)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				target = pinned + ":7"
			}
			conn := b.connectSending(target)
			if _, err := conn.Write([]byte{0, 'x'}); err != nil {
				t.Fatal(err)
			}
			if !c.reaches {
				isReset(t, conn)
				b.denied(c.ruleSays)
				if dials := w.dials(); len(dials) > 0 {
					t.Errorf("dialed %v", dials)
				}
				return
			}
			_ = conn.(*prompt).CloseWrite()
			if got := readAll(t, conn); got != "\x00xbye" {
				t.Errorf("got %q", got)
			}
			e := b.await("allowed", func(e log.Entry) bool { return e.Action == log.Allow && !e.Open })
			if e.Rule != c.ruleSays || e.RequestBytes != 2 || e.ResponseBytes != 5 {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

func TestWorkerLoopback(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.web(t, "worker", "127.0.0.1:8080", "127.0.0.1:9090")
	b := w.open(t, options{allow: []string{"host.stint.internal:8080"}})
	if status, body, err := b.get("http://host.stint.internal:8080/"); err != nil || status != 200 || body != "worker for host.stint.internal:8080" {
		t.Errorf("%d %s, %v", status, body, err)
	}
	if status, body, err := b.get("http://host.stint.internal:9090/"); err != nil || status != 403 || !strings.Contains(body, "'host.stint.internal:9090' to network.allow") {
		t.Errorf("%d %s, %v", status, body, err)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:8080"}, w.dials()); diff != "" {
		t.Error(diff)
	}
	off := w.open(t, options{allow: []string{"host.stint.internal:8080", "127.0.0.1:8080"}, config: func(c *egress.Config) { c.DenyHost = true }})
	w.name("sly.example", "127.0.0.1")
	for _, name := range []string{"host.stint.internal", "sly.example"} {
		if addr, err := off.lookup(name); err == nil {
			t.Errorf("%s is %s where the host is off", name, addr)
		}
	}
	off.denied("host.stint.internal is off")
	off.denied("loopback address")
}

func TestChangingAnswers(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":7", "10.0.0.1:7")
	w.name("rebind.example", site, "10.0.0.1")
	now := newClock()
	b := w.open(t, options{config: func(c *egress.Config) { c.Now = now.Now }})
	first := b.dial("rebind.example", 7)
	_ = first.(*net.TCPConn).CloseWrite()
	if got := readAll(t, first); got != "bye" {
		t.Fatalf("got %q", got)
	}
	now.advance(3600)
	addr, _ := b.query("rebind.example")
	if addr != "" {
		t.Errorf("after the change the name is %s", addr)
	}
	again := b.connect("198.18.0.1:7") // the address that a program may keep from the first lookup
	isReset(t, again)
	b.await("refused", func(e log.Entry) bool { return e.Rule == "private address" && e.Protocol == "tcp" })
	if dials := w.dials(); !slices.Equal(dials, []string{site + ":7"}) {
		t.Errorf("dialed %v", dials)
	}
}

func TestOnlyCheckedAddressesAreDialed(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":7")
	w.name("mixed.example", "10.0.0.1 2606:2800:220:1::1 127.0.0.1 198.41.0.4 "+site+" 169.254.169.254")
	b := w.open(t, options{})
	c := b.dial("mixed.example", 7)
	_ = c.(*net.TCPConn).CloseWrite()
	if got := readAll(t, c); got != "bye" {
		t.Fatalf("got %q", got)
	}
	if diff := cmp.Diff([]string{"198.41.0.4:7", site + ":7"}, w.dials()); diff != "" {
		t.Error(diff)
	}
}
