package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestProxyConnect(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	cert, roots := issue(t, "shop.example")
	w.secure(t, cert, site+":443")
	w.web(t, "shop", site+":80")
	w.web(t, "evil", "198.41.0.4:80")
	w.serve(t, func(c net.Conn) { _, _ = c.Write([]byte("220 hello\r\n")); echo(c) }, site+":25")
	w.name("shop.example", site)
	w.name("inner.shop.example", "10.0.0.1")
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example", "*.shop.example"}})
	connect := func(line, rest string) (int, string, net.Conn, *bufio.Reader) {
		c := b.dial("proxy.stint.internal", 3128)
		if _, err := io.WriteString(c, line+" HTTP/1.1\r\nHost: x\r\n\r\n"+rest); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		r, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.StatusCode == 200 {
			return 200, "", c, in
		}
		body, _ := io.ReadAll(in)
		return r.StatusCode, string(body), c, in
	}
	t.Run("TLS within", func(t *testing.T) {
		status, _, c, _ := connect("CONNECT shop.example:443", "")
		s := tls.Client(c, &tls.Config{ServerName: "shop.example", RootCAs: roots})
		if got := readAll(t, s); status != 200 || got != "tls for shop.example" {
			t.Errorf("%d %s", status, got)
		}
		c.Close()
		e := b.await("of the tunnel", func(e log.Entry) bool { return e.Protocol == "tls" && !e.Open })
		if e.Method != "CONNECT" || e.Host != "shop.example" || e.Port != 443 || e.Rule != "allow shop.example" {
			t.Errorf("entry %+v", e)
		}
	})
	t.Run("another server name within", func(t *testing.T) {
		_, _, c, _ := connect("CONNECT shop.example:443", "")
		if err := tls.Client(c, &tls.Config{ServerName: "evil.test", InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Error("it passes")
		}
		b.await("of the refusal", func(e log.Entry) bool { return e.Action == log.Deny && e.ServerName == "evil.test" })
	})
	t.Run("HTTP within", func(t *testing.T) {
		_, _, c, _ := connect("CONNECT shop.example:80", "")
		got := exchangeRaw(t, c, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
		if diff := cmp.Diff([]int{200, 403}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a server that sends bytes first", func(t *testing.T) {
		_, _, _, in := connect("CONNECT shop.example:25", "")
		if line, err := in.ReadString('\n'); err != nil || line != "220 hello\r\n" {
			t.Errorf("%q, %v", line, err)
		}
	})
	t.Run("bytes behind the request", func(t *testing.T) {
		_, _, _, in := connect("CONNECT shop.example:80", "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		if r, err := http.ReadResponse(in, nil); err != nil || r.StatusCode != 200 {
			t.Errorf("%v, %v", r, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		before := len(w.dials())
		for line, want := range map[string]string{
			"CONNECT evil.test:443":            "403 'evil.test' to network.allow",
			"CONNECT inner.shop.example:443":   "403 private address",
			"CONNECT 169.254.169.254:80":       "403 metadata",
			"CONNECT [::ffff:127.0.0.1]:80":    "403 loopback",
			"CONNECT 127.0.0.1:80":             "403 loopback",
			"CONNECT host.stint.internal:80":   "403 network.allow",
			"CONNECT proxy.stint.internal:80":  "403 does not exist",
			"CONNECT 198.19.0.1:80":            "403 Look the name up again",
			"CONNECT localhost:80":             "403 does not exist",
			"CONNECT 0x7f.1:80":                "400 not a name",
			"CONNECT shop.example":             "400 host:port",
			"CONNECT shop.example:0":           "400 port",
			"CONNECT shop.example:080":         "400 port",
			"CONNECT shop.example:99999":       "400 port",
			"CONNECT http://shop.example:80/":  "400 host",
			"CONNECT shop.example:80/x":        "400 port",
			"CONNECT user@shop.example:80":     "400 not a name",
			"CONNECT shop.example:80@evil:443": "400 host:port",
		} {
			// The request after the refused CONNECT must not be forwarded.
			status, body, c, _ := connect(line, "GET http://shop.example/ HTTP/1.1\r\nHost: shop.example\r\n\r\n")
			wantStatus, message, _ := strings.Cut(want, " ")
			if fmt.Sprint(status) != wantStatus || !strings.Contains(body, message) || strings.Contains(body, "HTTP/1.1") {
				t.Errorf("%s returns %d %q, want %s", line, status, body, want)
			}
			c.Close()
		}
		if after := len(w.dials()); after != before {
			t.Errorf("refused requests dialed %v", w.dials()[before:])
		}
	})
	t.Run("with a body", func(t *testing.T) {
		c := b.dial("proxy.stint.internal", 3128)
		got := exchangeRaw(t, c, "CONNECT shop.example:80 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		if diff := cmp.Diff([]int{400}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("DNS within", func(t *testing.T) {
		_, _, c, in := connect("CONNECT 8.8.8.8:53", "")
		q := question(t, "shop.example.", 1, false)
		if _, err := c.Write(append([]byte{0, byte(len(q))}, q...)); err != nil {
			t.Fatal(err)
		}
		if b, err := in.Peek(4); err != nil || b[2] != q[0] || b[3] != q[1] {
			t.Errorf("%v, %v", b, err)
		}
	})
	t.Run("no proxy request", func(t *testing.T) {
		for _, opening := range []string{"\x16\x03\x01\x00\x05hello", "SSH-2.0-x\r\n", "PRI * HTTP/2.0\r\n"} {
			c := b.dial("proxy.stint.internal", 1)
			_, _ = io.WriteString(c, opening)
			isReset(t, c)
			b.denied("not a proxy request")
		}
		got := exchangeRaw(t, b.dial("proxy.stint.internal", 1), "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		if diff := cmp.Diff([]int{400}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestProxyRequests(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.web(t, "shop", site+":80")
	w.name("shop.example", site)
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example"}})
	tr := b.transport()
	tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.stint.internal:8080"})
	c := &http.Client{Transport: tr, Timeout: waitLimit}
	for target, want := range map[string]int{"http://shop.example/x": 200, "http://evil.test/": 403, "http://10.0.0.1/": 403, "http://198.19.1.1/": 403} {
		r, err := c.Get(target)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s returns %d, want %d", target, r.StatusCode, want)
		}
	}
	b.await("of the request", func(e log.Entry) bool { return e.URL == "http://shop.example/x" && e.Status == 200 })
}
