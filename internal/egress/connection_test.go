package egress_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestServerSendsFirst(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.Mode{policy.Public, policy.Restricted} {
		w := newTestInternet()
		w.serve(t, func(c net.Conn) {
			_, _ = c.Write([]byte("SSH-2.0-test\r\n"))
			echo(c)
		}, site+":22")
		w.name("git.example", site)
		b := w.open(t, options{mode: mode, allow: []string{"git.example"}})
		c := b.dial("git.example", 22)
		greeting := make([]byte, 14)
		if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != "SSH-2.0-test\r\n" {
			t.Fatalf("%q, %v", greeting, err)
		}
		if _, err := c.Write([]byte("SSH-2.0-client\r\n")); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		if got := readAll(t, c); got != "SSH-2.0-client\r\nbye" {
			t.Errorf("got %q", got)
		}
		e := b.await("of the tunnel", func(e log.Entry) bool { return e.Port == 22 && !e.Open })
		if e.Protocol != "tcp" || e.RequestBytes != 16 || e.ResponseBytes != 33 || e.Address != site || e.Host != "git.example" {
			t.Errorf("entry %+v", e)
		}
	}
}

func TestClientSendsFirst(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":5432")
	w.name("db.example", site)
	for _, mode := range []policy.Mode{policy.Public, policy.Restricted} {
		b := w.open(t, options{mode: mode, allow: []string{"db.example"}})
		for _, opening := range []string{"", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "*1\r\n$4\r\nPING\r\n", "AMQP\x00\x00\x09\x01", "NICK me\r\n", "GET\x00"} {
			c := b.dial("db.example", 5432)
			if _, err := c.Write([]byte(opening)); err != nil {
				t.Fatal(err)
			}
			_ = c.(*net.TCPConn).CloseWrite()
			if got := readAll(t, c); got != opening+"bye" {
				t.Errorf("%s: %q returns %q", mode, opening, got)
			}
		}
		// In mode public, an incomplete line is forwarded after a short delay.
		if mode == policy.Public {
			c := b.dial("db.example", 5432)
			if _, err := c.Write([]byte("help")); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 4)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "help" {
				t.Errorf("%q, %v", got, err)
			}
		}
	}
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, func(c net.Conn) {
		_, _ = c.Write([]byte("I am done"))
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}, site+":9")
	b := w.open(t, options{})
	c := b.connect(site + ":9")
	if got := readAll(t, c); got != "I am done" {
		t.Errorf("got %q", got)
	}
	for range 100 {
		if _, err := c.Write([]byte("I am not")); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if e := b.await("of the tunnel", func(e log.Entry) bool { return !e.Open }); e.RequestBytes != 800 || e.ResponseBytes != 9 || e.Error != "" {
		t.Errorf("entry %+v", e)
	}
}

func TestLargeTunnelIsEqual(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	w := newTestInternet()
	sums := make(chan [32]byte, 1)
	w.serve(t, func(c net.Conn) {
		var work sync.WaitGroup
		work.Go(func() {
			h := sha256.New()
			_, _ = io.Copy(h, c)
			sums <- [32]byte(h.Sum(nil))
		})
		h := sha256.New()
		_, _ = io.Copy(io.MultiWriter(c, h), io.LimitReader(rand.Reader, size))
		_ = c.(*net.TCPConn).CloseWrite()
		work.Wait()
		sums <- [32]byte(h.Sum(nil))
	}, site+":9")
	b := w.open(t, options{})
	c := b.connect(site + ":9")
	_ = c.SetDeadline(time.Time{})
	var work sync.WaitGroup
	there, back := sha256.New(), sha256.New()
	work.Go(func() {
		_, _ = io.Copy(io.MultiWriter(c, there), io.LimitReader(rand.Reader, size))
		_ = c.(*net.TCPConn).CloseWrite()
	})
	if n, err := io.Copy(back, c); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	work.Wait()
	if [32]byte(there.Sum(nil)) != <-sums || [32]byte(back.Sum(nil)) != <-sums {
		t.Error("the bytes differ")
	}
	if e := b.await("of the tunnel", func(e log.Entry) bool { return !e.Open }); e.RequestBytes != size || e.ResponseBytes != size {
		t.Errorf("entry %+v", e)
	}
	if sent, received := b.uplink.Traffic(); sent != size || received != size {
		t.Errorf("traffic %d, %d", sent, received)
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	b := w.open(t, options{config: func(c *egress.Config) { c.MaxConns = 8 }})
	for range 8 {
		c := b.connect(site + ":9")
		if _, err := c.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	isReset(t, b.connect(site+":9"))
	b.denied("too many connections")
}

func TestRefusalsDoNotHideOtherEntries(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	now := newClock()
	b := w.open(t, options{config: func(c *egress.Config) { c.Now = now.Now; c.MaxConns = 1 }})
	first := b.connect(site + ":9")
	if _, err := first.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 1500 {
		c := b.connect(site + ":9")
		isReset(t, c)
		c.Close()
	}
	_ = first.(*net.TCPConn).CloseWrite()
	_ = readAll(t, first)
	b.await("of the tunnel", func(e log.Entry) bool { return e.Action == log.Allow && !e.Open })
	b.uplink.Close()
	denied, suppressed := 0, int64(0)
	for _, e := range b.all() {
		switch e.Action {
		case log.Deny:
			denied++
		case log.Suppressed:
			if e.Rule != log.Deny {
				t.Errorf("entry %+v", e)
			}
			suppressed += e.Count
		}
	}
	if denied != 1000 || suppressed != 500 {
		t.Errorf("%d logged, %d suppressed", denied, suppressed)
	}
}

// TestLogIsBounded checks that allowed and refused connections have separate limits of log
// entries. When a limit is reached, one entry reports this. Later entries are only counted,
// and their number is reported at the end.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	b := w.open(t, options{config: func(c *egress.Config) { c.LogEntries = 40 }})
	allow := func() {
		c := b.connect(site + ":9")
		if _, err := c.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		_ = readAll(t, c)
	}
	deny := func() { isReset(t, b.connect("10.0.0.1:9")) }
	for range 40 {
		allow()
	}
	full := func(action string) func(log.Entry) bool {
		return func(e log.Entry) bool {
			return e.Action == log.Suppressed && e.Rule == action && strings.Contains(e.Error, "only counted")
		}
	}
	b.await("that the limit of allowed connections is reached", full(log.Allow))
	deny()
	b.await("of a refusal", func(e log.Entry) bool { return e.Action == log.Deny })
	for range 14 {
		deny()
	}
	b.await("that the limit of refused connections is reached", full(log.Deny))
	b.uplink.Close()
	logged, counted := map[string]int{}, map[string]int64{}
	entries := b.all()
	for _, e := range entries {
		logged[e.Action]++
		if e.Action == log.Suppressed {
			counted[e.Rule] += e.Count
		}
	}
	if logged[log.Allow] != 30 || counted[log.Allow] < 10 || logged[log.Deny] != 10 || counted[log.Deny] != 5 {
		t.Errorf("logged %v, counted %v", logged, counted)
	}
	if logged[log.Suppressed] > 4 {
		t.Errorf("suppressed entries are reported %d times", logged[log.Suppressed])
	}
}

func TestLongConnectionIsLoggedAtStart(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	w.name("slow.example", site)
	b := w.open(t, options{})
	pinned, err := b.lookup("slow.example")
	if err != nil {
		t.Fatal(err)
	}
	var c net.Conn
	var open log.Entry
	for id := int64(1); id <= 5 && open.Address == ""; id++ { // if dialing is slow, the entry of the start has no address yet
		c = b.connectSending(pinned + ":9")
		if _, err := c.Write([]byte("\x00")); err != nil {
			t.Fatal(err)
		}
		open = b.await("of the start", func(e log.Entry) bool { return e.Open && e.Connection == id })
	}
	if open.Host != "slow.example" || open.Action != log.Allow || open.Rule != "public" || open.Address != site {
		t.Errorf("entry %+v", open)
	}
	_ = c.(*prompt).CloseWrite()
	_ = readAll(t, c)
	end := b.await("of the end", func(e log.Entry) bool { return !e.Open && e.Connection == open.Connection })
	if end.Duration < 400*time.Millisecond || end.ResponseBytes != 4 {
		t.Errorf("entry %+v", end)
	}
}

func TestCloseWhileBusy(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, func(c net.Conn) {
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}, site+":9")
	w.name("busy.example", site)
	w.name("silent.example", "198.41.0.4")
	w.serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "198.41.0.4:9")
	cert, _ := issue(t, "busy.example")
	w.secure(t, cert, "198.41.0.4:443")
	b := w.open(t, options{run: func(r *egress.RunConfig) { r.Mode = policy.Public }})
	for range 4 {
		busy := b.dial("busy.example", 9)
		if _, err := busy.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		b.dial("silent.example", 9) // neither side sends bytes
		half := b.dial("silent.example", 443)
		if _, err := half.Write([]byte{22, 3, 1}); err != nil { // an incomplete ClientHello
			t.Fatal(err)
		}
		web := b.dial("silent.example", 9)
		if _, err := web.Write([]byte("POST / HTTP/1.1\r\nHost: silent.example:9\r\nContent-Length: 9\r\n\r\nhalf")); err != nil {
			t.Fatal(err)
		}
	}
	b.uplink.Close()
	b.uplink.Close()
	logged := 0
	for _, e := range b.all() {
		if !e.Open && e.Port == 9 && e.Host == "busy.example" && e.Error == "ended with the run" && e.ResponseBytes > 0 {
			logged++
		}
	}
	if logged != 4 {
		t.Errorf("%d of 4 ends are logged: %+v", logged, b.all())
	}
	if _, err := b.pair(netip.MustParseAddrPort(site + ":9")); err == nil {
		t.Error("the listener still accepts")
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	for _, idle := range []time.Duration{50 * time.Millisecond, 1} { // the second one is 1 ns, which is over before any byte is transferred
		b := w.open(t, options{config: func(c *egress.Config) { c.IdleTimeout = idle }})
		c := b.connectSending(site + ":9")
		if _, err := c.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(c)
		b.await("of the end", func(e log.Entry) bool { return e.Error == "no bytes were transferred for too long" })
	}
}

func TestBandwidthIsLimited(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	b := w.open(t, options{config: func(c *egress.Config) { c.Bandwidth = 1 << 20 }})
	c := b.connect(site + ":9")
	sent := bytes.Repeat([]byte{0}, 1<<20)
	began := time.Now()
	var work sync.WaitGroup
	work.Go(func() {
		_, _ = c.Write(sent)
		_ = c.(*net.TCPConn).CloseWrite()
	})
	got := readAll(t, c)
	work.Wait()
	if got != string(sent)+"bye" {
		t.Errorf("%d bytes of %d", len(got), len(sent))
	}
	// 1 MiB at 1 MiB per second takes one second, less the initial burst.
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

func TestBlockingRecordDoesNotDelay(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, echo, site+":9")
	gate := make(chan struct{})
	b := w.open(t, options{blocked: gate})
	for range 50 {
		c := b.connect(site + ":9")
		_ = c.(*net.TCPConn).CloseWrite()
		if got := readAll(t, c); got != "bye" {
			t.Fatalf("got %q", got)
		}
	}
	close(gate)
	b.uplink.Close()
	ends := 0
	for _, e := range b.all() {
		if !e.Open { // a slow connection also has an entry of its start
			ends++
		}
	}
	if ends != 50 {
		t.Errorf("%d ends are logged", ends)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := egress.New(egress.Config{MaxConns: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
	g, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Open(egress.RunConfig{Mode: "open"}); err == nil {
		t.Error("an unknown mode is taken")
	}
}
