package egress_test

import (
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// plainHello returns a minimal ClientHello for a server name. It contains no random bytes.
func plainHello(name string) []byte {
	ext := append([]byte{0, 0, 0, byte(len(name) + 5), 0, byte(len(name) + 3), 0, 0, byte(len(name))}, name...)
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0, 0, byte(len(ext)))
	body = append(body, ext...)
	message := append([]byte{1, 0, 0, byte(len(body))}, body...)
	return append([]byte{22, 3, 1, 0, byte(len(message))}, message...)
}

func TestPlainHello(t *testing.T) {
	t.Parallel()
	if name, hidden, _, err := egress.ServerName(plainHello("shop.example")); name != "shop.example" || hidden || err != nil {
		t.Errorf("%q, %v, %v", name, hidden, err)
	}
}

// FuzzClientHello checks that the parser does not panic, that it returns a canonical name
// or no name, and that its result for the first bytes of a record agrees with its result
// for all bytes.
func FuzzClientHello(f *testing.F) {
	hello := plainHello("shop.example")
	f.Add(hello, 5)
	f.Add(split(hello, 3), 1)
	f.Add(withExtension(hello, 0xfe0d), 100)
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		name, hidden, more, err := egress.ServerName(b)
		if name != "" {
			if again, bad := policy.CanonicalDomain(name); bad != nil || again != name || err != nil {
				t.Errorf("name %q, %v, %v", name, bad, err)
			}
		}
		if err != nil && hidden {
			t.Error("a malformed ClientHello is reported as encrypted")
		}
		if cut < 0 || cut > len(b) {
			return
		}
		part, partHidden, partMore, partErr := egress.ServerName(b[:cut])
		switch {
		case partErr == nil && (part != name || partHidden != hidden || err != nil):
			t.Errorf("%d bytes contain the name %q, %d bytes %q, %v", cut, part, len(b), name, err)
		case partErr != nil && !partMore && err == nil:
			t.Errorf("%d bytes are malformed, %d are not", cut, len(b))
		case partMore && cut == len(b) && !more:
			t.Error("the same bytes are parsed differently")
		}
	})
}

// FuzzOpening checks that further bytes of a client do not change the result after its
// first bytes were classified.
func FuzzOpening(f *testing.F) {
	f.Add([]byte("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 5)
	f.Add([]byte("AMQP\x00\x00\x09\x01"), 4)
	f.Add([]byte{21, 3, 1, 0, 2, 1, 0}, 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		protocol, readable, more := egress.Opening(b)
		if cut < 1 || cut > len(b) {
			return
		}
		early, earlyReadable, earlyMore := egress.Opening(b[:cut])
		if !earlyMore && (early != protocol || earlyReadable != readable || more) {
			t.Errorf("%q is %s %v, %q is %s %v", b[:cut], early, earlyReadable, b, protocol, readable)
		}
	})
}

// FuzzDNS checks that the server does not panic, and that a response is well formed and has
// the ID of the query. Its addresses must be loopback addresses or represent names.
func FuzzDNS(f *testing.F) {
	w := newTestInternet()
	w.name("example.com", site)
	b := w.open(f, options{allow: []string{"host.stint.internal:1"}})
	f.Add(question(f, "example.com.", dnsmessage.TypeA, true))
	f.Add(question(f, "host.stint.internal.", dnsmessage.TypeA, false))
	f.Add(question(f, "x.test.", dnsmessage.Type(65), true))
	f.Fuzz(func(t *testing.T, q []byte) {
		reply := b.uplink.AnswerQuery(q)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("%x is answered with %x: %v", q, reply, err)
		}
		if !m.Response || m.ID != uint16(q[0])<<8|uint16(q[1]) {
			t.Errorf("answer %+v", m.Header)
		}
		for _, a := range m.Answers {
			ip := netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A)
			if !netip.MustParsePrefix("198.18.0.0/15").Contains(ip) && !ip.IsLoopback() {
				t.Errorf("answer %v", ip)
			}
		}
	})
}
