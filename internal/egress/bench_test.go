package egress_test

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkConnection measures a connection that transfers one byte in each direction:
// connected directly ("direct"), and from a sandbox through its uplink ("gate").
func BenchmarkConnection(b *testing.B) {
	w := newTestInternet()
	w.serve(b, echo, site+":9")
	once := func(b *testing.B, dial func() (net.Conn, error)) {
		buf := []byte{0}
		for b.Loop() {
			c, err := dial()
			if err != nil {
				b.Fatal(err)
			}
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	}
	b.Run("direct", func(b *testing.B) {
		once(b, func() (net.Conn, error) { return net.Dial("tcp", w.servers[site+":9"]) })
	})
	b.Run("gate", func(b *testing.B) {
		s := w.open(b, options{})
		once(b, func() (net.Conn, error) { return s.pair(netip.MustParseAddrPort(site + ":9")) })
	})
}

// BenchmarkThroughput measures a download over a direct connection, and from a sandbox
// through its uplink ("tunnel").
func BenchmarkThroughput(b *testing.B) {
	w := newTestInternet()
	w.serve(b, func(c net.Conn) {
		buf := make([]byte, 256<<10)
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	}, site+":9")
	read := func(b *testing.B, c net.Conn) {
		defer c.Close()
		_ = c.SetDeadline(time.Time{})
		buf := make([]byte, 1<<20)
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) {
		c, err := net.Dial("tcp", w.servers[site+":9"])
		if err != nil {
			b.Fatal(err)
		}
		read(b, c)
	})
	b.Run("tunnel", func(b *testing.B) { read(b, w.open(b, options{}).connect(site+":9")) })
}
