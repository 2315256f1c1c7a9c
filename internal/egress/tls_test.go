package egress_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// issue returns a certificate for names, and roots that trust it.
func issue(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// secure starts a TLS server at addresses that responds with the server name of the
// client.
func (w *testInternet) secure(t testing.TB, cert tls.Certificate, addrs ...string) {
	t.Helper()
	w.serve(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		if s.Handshake() == nil {
			_, _ = s.Write([]byte("tls for " + s.ConnectionState().ServerName))
			_ = s.CloseWrite()
			_, _ = io.Copy(io.Discard, s)
		}
	}, addrs...)
}

func TestTLSByServerName(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	cert, roots := issue(t, "shop.example", "other.example", "evil.test")
	w.secure(t, cert, site+":443", "10.0.0.1:443")
	w.name("shop.example", site)
	for _, c := range []struct {
		what   string
		mode   policy.Mode
		allow  string
		target string // empty: the address of shop.example in the sandbox
		sni    string
		rule   string // the refusing rule; empty if the connection is allowed
	}{
		{"its own name", policy.Restricted, "shop.example", "", "shop.example", ""},
		{"its own name in other letters", policy.Restricted, "shop.example", "", "SHOP.example", ""},
		{"another allowed name", policy.Restricted, "shop.example other.example", "", "other.example", ""},
		{"a name that is not allowed", policy.Restricted, "shop.example", "", "evil.test", "not in network.allow"},
		{"a name allowed on another port", policy.Restricted, "shop.example evil.test:8443", "", "evil.test", "not in network.allow"},
		{"no name", policy.Restricted, "shop.example", "", "", ""},
		{"an address by range", policy.Restricted, "10.0.0.1", "10.0.0.1:443", "evil.test", ""},
		{"an address not allowed, the name allowed", policy.Restricted, "shop.example", site + ":443", "shop.example", "not in network.allow"},
		{"public", policy.Public, "", "", "evil.test", ""},
		{"public, an address", policy.Public, "", site + ":443", "evil.test", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b := w.open(t, options{mode: c.mode, allow: strings.Fields(c.allow)})
			target := c.target
			if target == "" {
				a, err := b.lookup("shop.example")
				if err != nil {
					t.Fatal(err)
				}
				target = a + ":443"
			}
			conn := tls.Client(b.connectSending(target), &tls.Config{ServerName: c.sni, RootCAs: roots, InsecureSkipVerify: true})
			got, err := io.ReadAll(conn)
			if c.rule != "" {
				if err == nil {
					t.Errorf("got %q", got)
				}
				if e := b.denied(c.rule); e.Protocol != "tls" {
					t.Errorf("entry %+v", e)
				}
				return
			}
			if !strings.EqualFold(string(got), "tls for "+c.sni) {
				t.Errorf("got %q, %v", got, err)
			}
			conn.Close()
			e := b.await("of the tunnel", func(e log.Entry) bool { return e.Protocol == "tls" && !e.Open })
			if e.ResponseBytes == 0 || e.RequestBytes == 0 || c.sni != "" && !strings.EqualFold(c.sni, e.Host) && e.ServerName != c.sni {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

// clientHello returns the first bytes of a TLS client.
func clientHello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	var work sync.WaitGroup
	work.Go(func() { _ = tls.Client(near, c).Handshake() })
	buf := make([]byte, 64<<10)
	n, err := far.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	near.Close()
	work.Wait()
	return buf[:n]
}

// split divides the payload of a record into records of n bytes.
func split(record []byte, n int) (out []byte) {
	for part := range slices.Chunk(record[5:], n) {
		out = append(out, record[0], record[1], record[2], byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

func TestRestrictedOpenings(t *testing.T) {
	t.Parallel()
	evil := clientHello(t, &tls.Config{ServerName: "evil.test"})
	good := clientHello(t, &tls.Config{ServerName: "shop.example"})
	broken := bytes.Clone(good)
	broken[len(broken)-1] ^= 0xff
	broken[43] = 0xff // the length of the session ID
	for what, c := range map[string]struct {
		bytes []byte
		rule  string
	}{
		"another name in pieces of records": {split(evil, 7), "not in network.allow"},
		"a broken ClientHello":              {broken, "unreadable opening"},
		"an alert before TLS":               {append([]byte{21, 3, 1, 0, 2, 1, 0}, evil...), "unreadable opening"},
		"hidden name":                       {withExtension(good, 0xfe0d), "encrypted ClientHello"},
		"two names":                         {withExtension(good, 0), "unreadable opening"},
		"cleartext HTTP/2":                  {[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "cleartext HTTP/2"},
		"control characters in the line":    {[]byte("GET /\x00 HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "unreadable opening"},
		"a line without end":                {bytes.Repeat([]byte("GET /"), 8<<10), "unreadable opening"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newTestInternet()
			got := make(chan []byte, 1)
			w.serve(t, func(c net.Conn) {
				b, _ := io.ReadAll(c)
				got <- b
			}, site+":443")
			w.name("shop.example", site)
			b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example"}})
			conn := b.dial("shop.example", 443)
			_, _ = conn.Write(c.bytes)
			isReset(t, conn)
			b.denied(c.rule)
			if b := <-got; len(b) > 0 {
				t.Errorf("the server got %q", b)
			}
		})
	}
}

// withExtension returns a copy of a ClientHello with an additional extension of the type
// kind. The extension contains one host name, a.com.
func withExtension(record []byte, kind uint16) []byte {
	r := bytes.Clone(record)
	data := []byte{0, 8, 0, 0, 5, 'a', '.', 'c', 'o', 'm'}
	ext := append([]byte{byte(kind >> 8), byte(kind), 0, byte(len(data))}, data...)
	at := 5 + 4 + 2 + 32
	at += 1 + int(r[at])
	at += 2 + int(r[at])<<8 + int(r[at+1])
	at += 1 + int(r[at])
	add := func(i int) {
		n := int(r[i])<<8 + int(r[i+1]) + len(ext)
		r[i], r[i+1] = byte(n>>8), byte(n)
	}
	add(at)
	add(3)
	add(7)
	return append(r, ext...)
}

func TestSplitClientHelloPasses(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	hello := split(clientHello(t, &tls.Config{ServerName: "shop.example"}), 11)
	w.serve(t, echo, site+":443")
	w.name("shop.example", site)
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example"}})
	c := b.dial("shop.example", 443)
	for part := range slices.Chunk(hello, 5) {
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.(*net.TCPConn).CloseWrite()
	if diff := cmp.Diff(string(hello)+"bye", readAll(t, c)); diff != "" {
		t.Error(diff)
	}
}
