package egress_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// clock is a clock that only the method advance moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(seconds int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(time.Duration(seconds) * time.Second)
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("after %d bytes: %v", len(got), err)
	}
	return string(got)
}

// question returns a DNS query, with an EDNS record if edns is true.
func question(t testing.TB, name string, kind dnsmessage.Type, edns bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(1232, 0, false); err != nil {
			t.Fatal(err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send sends a datagram to the sandbox's DNS server and returns the response.
func (b *testSandbox) send(q []byte) dnsmessage.Message {
	b.t.Helper()
	c, err := net.Dial("udp", b.dns.LocalAddr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitLimit))
	if _, err := c.Write(q); err != nil {
		b.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		b.t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// query returns the address in the A record of name. If the response has no answer, query
// returns the response code as an error. The name need not be a valid host name.
func (b *testSandbox) query(name string) (string, error) {
	b.t.Helper()
	m := b.send(question(b.t, name+".", dnsmessage.TypeA, false))
	if len(m.Answers) == 0 {
		return "", errors.New(m.RCode.String())
	}
	a := m.Answers[0].Body.(*dnsmessage.AResource).A
	return net.IP(a[:]).String(), nil
}

func TestDNSAnswers(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.name("example.com", site)
	w.name("broken.example", "!")
	b := w.open(t, options{allow: []string{"example.com", "*.example"}, mode: policy.Restricted})
	for _, c := range []struct {
		name    string
		kind    dnsmessage.Type
		code    dnsmessage.RCode
		answers string
	}{
		{"example.com.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.1"},
		{"ExAmPlE.CoM.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "198.18.0.1"},
		{"example.com.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, ""},
		{"example.com.", dnsmessage.Type(65), dnsmessage.RCodeSuccess, ""},
		{"example.com.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, ""},
		{"none.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"broken.example.", dnsmessage.TypeA, dnsmessage.RCodeServerFailure, ""},
		{"evil.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"evil.test.", dnsmessage.Type(65), dnsmessage.RCodeNameError, ""},
		{"localhost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, "127.0.0.1"},
		{"localhost.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, ""},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, ""},
	} {
		for _, edns := range []bool{false, true} {
			m := b.send(question(t, c.name, c.kind, edns))
			var answers []string
			for _, a := range m.Answers {
				ip := a.Body.(*dnsmessage.AResource).A
				answers = append(answers, net.IP(ip[:]).String())
				if a.Header.TTL > 60 || a.Header.Name.String() != c.name {
					t.Errorf("%s: answer %+v", c.name, a)
				}
			}
			if m.ID != 4711 || !m.Response || m.RCode != c.code || strings.Join(answers, " ") != c.answers || len(m.Questions) != 1 || m.Questions[0].Name.String() != c.name {
				t.Errorf("%s %s: %+v", c.name, c.kind, m)
			}
			if edns != (len(m.Additionals) == 1) {
				t.Errorf("%s: %d additionals, EDNS asked: %v", c.name, len(m.Additionals), edns)
			}
		}
	}
	b.await("of the failed lookup", func(e log.Entry) bool { return e.Host == "broken.example" && e.Error != "" && e.Protocol == "dns" })
	b.await("of the missing name", func(e log.Entry) bool {
		return e.Host == "none.example" && e.Method == "A" && e.Rule == "allow *.example"
	})
	for _, e := range b.all() {
		if e.Host == "example.com" {
			t.Errorf("a successful lookup is logged: %+v", e)
		}
	}
}

func TestDNSExtendedErrors(t *testing.T) {
	t.Parallel()
	b := newTestInternet().open(t, options{mode: policy.Restricted})
	m := b.send(question(t, "evil.test.", dnsmessage.TypeA, true))
	opt := m.Additionals[0].Body.(*dnsmessage.OPTResource)
	if len(opt.Options) != 1 || opt.Options[0].Code != 15 || binary.BigEndian.Uint16(opt.Options[0].Data) != 18 || !strings.Contains(string(opt.Options[0].Data), "'evil.test' to network.allow") {
		t.Errorf("options %+v", opt.Options)
	}
}

func TestDNSMalformed(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.name("example.com", site)
	b := w.open(t, options{})
	good := question(t, "example.com.", dnsmessage.TypeA, false)
	edit := func(at int, v ...byte) []byte {
		q := append([]byte(nil), good...)
		copy(q[at:], v)
		return q
	}
	for what, c := range map[string]struct {
		q    []byte
		code dnsmessage.RCode
	}{
		"another opcode":      {edit(2, 0x29), dnsmessage.RCodeNotImplemented},
		"no question":         {edit(4, 0, 0)[:12], dnsmessage.RCodeFormatError},
		"two questions":       {edit(4, 0, 2), dnsmessage.RCodeFormatError},
		"cut short":           {good[:20], dnsmessage.RCodeFormatError},
		"a pointer to itself": {edit(12, 0xc0, 12), dnsmessage.RCodeFormatError},
		"missing answers":     {edit(6, 0, 9), dnsmessage.RCodeFormatError},
		"another class":       {edit(len(good)-2, 0, 3), dnsmessage.RCodeNameError},
	} {
		if m := b.send(c.q); m.RCode != c.code || m.ID != 4711 {
			t.Errorf("%s: %+v", what, m.Header)
		}
	}
	// Messages that are not queries get no response; the query after them does.
	c, err := net.Dial("udp", b.dns.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitLimit))
	for _, message := range [][]byte{{}, {1}, edit(2, 0x81), good} {
		if _, err := c.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 512)
	if n, err := c.Read(buf); err != nil || n <= len(good) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestDNSOverTCP(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.name("example.com", site)
	b := w.open(t, options{})
	r := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return b.connect("8.8.8.8:53"), nil // the uplink answers in place of any DNS server
	}}
	addrs, err := r.LookupNetIP(context.Background(), "ip4", "example.com.")
	if err != nil || addrs[0].String() != "198.18.0.1" {
		t.Errorf("%v, %v", addrs, err)
	}
	c := b.connect("1.1.1.1:53")
	if _, err := c.Write([]byte{0, 3, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, c); got != "" {
		t.Errorf("a malformed message is answered with %q", got)
	}
	if dials := w.dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestNamesRunOut(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	b := w.open(t, options{})
	first := ""
	seen := map[[4]byte]bool{}
	refused := 0
	for i := 0; refused == 0 && i < 140_000; i++ {
		name := fmt.Sprintf("n%d.example", i)
		w.mu.Lock()
		w.names = map[string][][]string{name: {{site}}}
		w.asked = nil
		w.mu.Unlock()
		var m dnsmessage.Message
		if err := m.Unpack(b.uplink.AnswerQuery(question(t, name+".", dnsmessage.TypeA, false))); err != nil {
			t.Fatal(err)
		}
		if len(m.Answers) == 0 {
			refused = i
			break
		}
		a := m.Answers[0].Body.(*dnsmessage.AResource).A
		if seen[a] {
			t.Fatalf("%v represents a second name", a)
		}
		seen[a] = true
		if i == 0 {
			first = net.IP(a[:]).String()
		}
	}
	if refused != 131070 {
		t.Errorf("refused after %d names", refused)
	}
	b.denied("too many names")
	isReset(t, b.connect(first+":80"))
	b.denied("unknown address")
}

func TestTooManyQueries(t *testing.T) {
	t.Parallel()
	b := newTestInternet().open(t, options{config: func(c *egress.Config) { c.Resolver = stuck{} }})
	c, err := net.Dial("udp", b.dns.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 65 {
		if _, err := c.Write(question(t, fmt.Sprintf("n%d.example.", i), dnsmessage.TypeA, false)); err != nil {
			t.Fatal(err)
		}
	}
	b.denied("too many queries")
}

// stuck is a resolver that never answers.
type stuck struct{}

func (stuck) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
