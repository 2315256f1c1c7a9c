package dns_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint/internal/egress/dns"
)

// question returns a query for the A record of name, with an EDNS record if edns is true.
func question(t testing.TB, name string, edns bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
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

func unpack(t testing.TB, b []byte) (m dnsmessage.Message) {
	t.Helper()
	if err := m.Unpack(b); err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	return m
}

// replies contains the reply for each name.
type replies map[string]dns.Reply

func (r replies) resolve(_ context.Context, q dnsmessage.Question) dns.Reply {
	return r[q.Name.String()]
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	s := dns.NewServer(replies{
		"a.test.":       {Addr: netip.MustParseAddr("198.18.0.7")},
		"refused.test.": dns.Refuse(dns.Prohibited, "Not allowed."),
		"missing.test.": dns.Fail(&net.DNSError{IsNotFound: true}),
		"failing.test.": dns.Fail(errors.New("time-out")),
	}.resolve, func() {})
	for name, want := range map[string]struct {
		code   dnsmessage.RCode
		addr   string
		error  uint16
		reason string
	}{
		"a.test.":       {addr: "198.18.0.7"},
		"empty.test.":   {},
		"refused.test.": {code: dnsmessage.RCodeNameError, error: 18, reason: "Not allowed."},
		"missing.test.": {code: dnsmessage.RCodeNameError},
		"failing.test.": {code: dnsmessage.RCodeServerFailure, error: 23, reason: "The lookup failed."},
	} {
		for _, edns := range []bool{false, true} {
			m := unpack(t, s.Answer(t.Context(), question(t, name, edns)))
			got := want
			got.code, got.addr = m.RCode, ""
			if len(m.Answers) == 1 {
				a := m.Answers[0].Body.(*dnsmessage.AResource).A
				got.addr = netip.AddrFrom4(a).String()
			}
			if edns {
				got.error, got.reason = 0, ""
				for _, o := range m.Additionals[0].Body.(*dnsmessage.OPTResource).Options {
					got.error, got.reason = binary.BigEndian.Uint16(o.Data), string(o.Data[2:])
				}
			}
			if got != want || m.ID != 4711 || !m.Response || !m.RecursionAvailable || len(m.Additionals) != map[bool]int{true: 1}[edns] {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
}

func TestMessagesThatAreNotQueriesAreIgnored(t *testing.T) {
	t.Parallel()
	s := dns.NewServer(replies{}.resolve, func() {})
	response := question(t, "a.test.", false)
	response[2] |= 0x80
	for _, message := range [][]byte{nil, {1}, response} {
		if got := s.Answer(t.Context(), message); got != nil {
			t.Errorf("%x is answered with %x", message, got)
		}
	}
}

func TestConnectionsCarrySeveralQueries(t *testing.T) {
	t.Parallel()
	s := dns.NewServer(replies{"a.test.": {Addr: netip.MustParseAddr("198.18.0.7")}}.resolve, func() {})
	client, server := net.Pipe()
	var work sync.WaitGroup
	work.Go(func() { defer server.Close(); s.ServeConn(t.Context(), server) })
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	q := question(t, "a.test.", false)
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	for range 3 {
		if _, err := client.Write(framed); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		if _, err := io.ReadFull(client, size[:]); err != nil {
			t.Fatal(err)
		}
		response := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(client, response); err != nil {
			t.Fatal(err)
		}
		if m := unpack(t, response); len(m.Answers) != 1 {
			t.Errorf("%+v", m)
		}
	}
	if _, err := client.Write([]byte{0, 3, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("a message that is not a query is answered with %x, %v", rest, err)
	}
	work.Wait()
}

func TestDatagramsBeyondLimitAreDropped(t *testing.T) {
	t.Parallel()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dropped, asked, release := make(chan struct{}, 1), make(chan struct{}, 64), make(chan struct{})
	s := dns.NewServer(func(context.Context, dnsmessage.Question) dns.Reply {
		asked <- struct{}{}
		<-release
		return dns.Reply{}
	}, func() { dropped <- struct{}{} })
	var work sync.WaitGroup
	work.Go(func() { s.ServePackets(t.Context(), c) })
	client, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 64 {
		if _, err := client.Write(question(t, "a.test.", false)); err != nil {
			t.Fatal(err)
		}
		<-asked
	}
	if _, err := client.Write(question(t, "a.test.", false)); err != nil {
		t.Fatal(err)
	}
	<-dropped
	close(release)
	_ = client.SetReadDeadline(time.Now().Add(time.Minute))
	for range 64 {
		if _, err := client.Read(make([]byte, 512)); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	work.Wait()
}

func TestNamesKeepTheirAddresses(t *testing.T) {
	t.Parallel()
	n := dns.NewNames()
	address := func(name string) netip.Addr {
		a, ok := n.Addr(name)
		if !ok || !dns.IsNameAddr(a) {
			t.Fatalf("%s has %v, %v", name, a, ok)
		}
		return a
	}
	first, second := address("first.test"), address("second.test")
	if first == second || address("first.test") != first {
		t.Errorf("addresses %v and %v", first, second)
	}
	for i := range 8191 { // together with first.test, these names fill the table
		address(strings.Repeat("x", i%60+1) + "-" + string(rune('a'+i%26)) + netip.AddrFrom4([4]byte{byte(i >> 8), byte(i)}).String())
		if name, ok := n.Name(first); !ok || name != "first.test" { // Name also marks first.test as used
			t.Fatalf("after %d names: %q, %v", i, name, ok)
		}
	}
	if name, ok := n.Name(second); ok {
		t.Errorf("the least recently used name %s is still known", name)
	}
	if again := address("second.test"); again == second {
		t.Errorf("%v is used again", again)
	}
}

// scripted is a resolver that returns its answers in order, and repeats the last one.
type scripted struct {
	answers []any // []netip.Addr or error
	asked   []string
}

func (s *scripted) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	s.asked = append(s.asked, host)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if err, ok := answer.(error); ok {
		return nil, err
	}
	return answer.([]netip.Addr), nil
}

func TestLookupsAreCached(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	six, four, mapped := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.2")
	failure := errors.New("failed")
	r := &scripted{answers: []any{failure, []netip.Addr{six, four, mapped}, []netip.Addr{six}, []netip.Addr{}}}
	c := dns.NewCache(r, func() time.Time { return now })
	if _, err := c.Lookup(t.Context(), "a.test"); !errors.Is(err, failure) {
		t.Errorf("a failed lookup: %v", err)
	}
	for _, step := range []struct {
		seconds int
		want    []netip.Addr
		asked   int
	}{
		{0, []netip.Addr{four, mapped.Unmap(), six}, 2}, // a failure is not cached
		{9, []netip.Addr{four, mapped.Unmap(), six}, 2},
		{1, []netip.Addr{six}, 3},
	} {
		now = now.Add(time.Duration(step.seconds) * time.Second)
		got, err := c.Lookup(t.Context(), "a.test")
		if diff := cmp.Diff(step.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil || len(r.asked) != step.asked {
			t.Errorf("%d lookups, %v (-want +got):\n%s", len(r.asked), err, diff)
		}
	}
	var missing *net.DNSError
	if _, err := c.Lookup(t.Context(), "b.test"); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("a name without addresses: %v", err)
	}
}

func TestLookupReturnsAtMostSixteenAddresses(t *testing.T) {
	t.Parallel()
	many := make([]netip.Addr, 40)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	}
	c := dns.NewCache(&scripted{answers: []any{many}}, time.Now)
	if got, err := c.Lookup(t.Context(), "a.test"); err != nil || len(got) != 16 || got[15] != many[15] {
		t.Errorf("%v, %v", got, err)
	}
}
