package proxy_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

func echoHost(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, " ", r.RequestURI) }

func TestCleartextRequestHostIsDialed(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	for _, c := range []struct {
		host   string
		status int
		body   string
		rule   string
	}{
		{"api.test", 200, "api.test /x", "allow api.test"},
		{"API.test:80", 200, "API.test:80 /x", "allow api.test"},
		{"more.test", 200, "more.test /x", "allow more.test"},
		{"denied.test", 403, "Connections to denied.test are not allowed.\n", "deny all"},
		{"down.test", 502, "down.test did not respond: connection refused.\n", ""},
		{"api.test:8080", 421, "The request is for a port other than the connection's.\n", "host mismatch"},
		{"api.test:x", 400, "The request's host has a malformed port.\n", "http framing"},
		{"a..b", 400, "The request's host is not a host name.\n", "http framing"},
	} {
		res, body := w.exchange("GET /x HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")
		if res.StatusCode != c.status || body != c.body {
			t.Errorf("%s: %d %q", c.host, res.StatusCode, body)
		}
		e := w.next()
		if e.Status != c.status || e.Rule != c.rule || e.Refused != (c.status == 403 || c.status == 421 || c.status == 400) || (e.Err == nil) != (c.status == 200) {
			t.Errorf("%s: recorded %+v", c.host, e)
		}
	}
	if diff := cmp.Diff([]string{"api.test:80", "api.test:80", "more.test:80", "denied.test:80", "down.test:80"}, w.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestRefusalPointerIsRecognized(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost, handler(func(h *proxy.Handler) {
		h.Dial = dialer(func() (net.Conn, string, error) {
			return nil, "", fmt.Errorf("dialing: %w", &policy.Refusal{Rule: "r", Message: "No."})
		})
	}))
	res, body := w.exchange("GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if e := w.next(); res.StatusCode != 403 || body != "No.\n" || e.Rule != "r" || !e.Refused || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("got %d %q, %+v", res.StatusCode, body, e)
	}
}

func TestTLSConnectionHasOneHost(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		w := newTestProxy(t, "https", echoHost)
		c := w.client(h2)
		for host, status := range map[string]int{"api.test": 200, "API.TEST:443": 200, "front.other.test": 421, "api.test:8443": 421, "denied.test": 421} {
			r := request(t, "GET", w.base()+"/", nil)
			r.Host = host
			res, body := do(t, c, r)
			if e := w.next(); res.StatusCode != status || e.Status != status || e.Refused != (status == 421) {
				t.Errorf("h2 %v, %s: %d %q, %+v", h2, host, res.StatusCode, body, e)
			}
		}
		if slices.Contains(w.asked, "denied.test:443") {
			t.Error("the policy was asked about a host that the connection is not for")
		}
	}
}

func TestCertificateIsForHost(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "https", echoHost)
	for name, want := range map[string]bool{"api.test": true, "other.test": false} {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		err = tls.Client(c, &tls.Config{RootCAs: w.roots(), ServerName: name}).HandshakeContext(t.Context())
		if (err == nil) != want {
			t.Errorf("a handshake for %s: %v", name, err)
		}
	}
}

func TestExplicitProxyUsesURLHost(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost, handler(func(h *proxy.Handler) { h.Proxy, h.Host = true, "" }))
	for first, want := range map[string]string{
		"GET http://more.test/a?b HTTP/1.1\r\nHost: more.test":           "200 more.test /a?b",
		"GET http://more.test:8080/a HTTP/1.1\r\nHost: more.test:8080":   "200 more.test:8080 /a",
		"GET http://more.test?b HTTP/1.1\r\nHost: more.test":             "200 more.test /?b",
		"GET http://more.test HTTP/1.1\r\nHost: more.test:80":            "200 more.test /",
		"GET http://more.test/a HTTP/1.1\r\nHost: api.test":              "400 The URL and the Host header of the request have different hosts.\n",
		"GET http://denied.test/a HTTP/1.1\r\nHost: denied.test":         "403 Connections to denied.test are not allowed.\n",
		"GET https://more.test/a HTTP/1.1\r\nHost: more.test":            "400 Requests with this form of URL are not forwarded.\n",
		"GET http://user@more.test/a HTTP/1.1\r\nHost: user@more.test":   "400 ",
		"GET /a HTTP/1.1\r\nHost: more.test":                             "400 A request to the proxy needs an absolute URL in its first line.\n",
		"CONNECT more.test:443 HTTP/1.1\r\nHost: more.test:443":          "405 CONNECT is not supported on this connection.\n",
		"GET ftp://more.test/a HTTP/1.1\r\nHost: more.test":              "400 Requests with this form of URL are not forwarded.\n",
		"GET http://more.test/%zz HTTP/1.1\r\nHost: more.test":           "400 The request's URL is malformed.\n",
		"GET http://more.test//two//slashes HTTP/1.1\r\nHost: more.test": "200 more.test //two//slashes",
	} {
		res, body := w.exchange(first + "\r\n\r\n")
		if got := fmt.Sprint(res.StatusCode, " ", body); got != want && (want != "400 " || res.StatusCode != 400) {
			t.Errorf("%q: %q", first, got)
		}
	}
	if !slices.Contains(w.asked, "more.test:8080") {
		t.Errorf("asked: %v", w.asked)
	}
}

func TestAbsoluteURLNeedsExplicitProxy(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	if res, _ := w.exchange("GET http://more.test/ HTTP/1.1\r\nHost: more.test\r\n\r\n"); res.StatusCode != 400 {
		t.Errorf("status %d", res.StatusCode)
	}
	if e := w.next(); !e.Refused || len(w.asked) > 0 {
		t.Errorf("recorded %+v, asked %v", e, w.asked)
	}
}

func TestOptionsAsterisk(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost, func(w *testProxy) { w.server.Config.DisableGeneralOptionsHandler = true })
	if res, body := w.exchange("OPTIONS * HTTP/1.1\r\nHost: api.test\r\n\r\n"); res.StatusCode != 200 || body != "api.test *" {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
	if res, _ := w.exchange("GET * HTTP/1.1\r\nHost: api.test\r\n\r\n"); res.StatusCode != 400 {
		t.Errorf("got %d for GET *", res.StatusCode)
	}
}

func TestHTTP10Clients(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	res, body := w.exchange("GET /old HTTP/1.0\r\n\r\n")
	if res.StatusCode != 200 || body != "api.test /old" {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
	if e := w.next(); e.Protocol != "http/1.0" || e.URL != "http://api.test/old" {
		t.Errorf("recorded %+v", e)
	}
}

func TestServersAreVerified(t *testing.T) {
	t.Parallel()
	stranger := handler(func(h *proxy.Handler) { h.Roots = x509.NewCertPool() })
	misnamed := handler(func(h *proxy.Handler) { h.Host = "elsewhere.test" })
	for name, c := range map[string]struct {
		edit option
		want string
	}{
		"not trusted": {stranger, "was issued by an unknown authority. If the host is correct, the operator can add its issuer with --egress-ca."},
		"other name":  {misnamed, "The certificate of elsewhere.test is invalid: "},
	} {
		w := newTestProxy(t, "https", echoHost, c.edit)
		res, body := do(t, w.client(true), request(t, "GET", "https://"+w.h.Host+"/", nil))
		e := w.next()
		if res.StatusCode != 502 || !strings.Contains(body, c.want) || e.Status != 502 || e.Err == nil || e.Refused {
			t.Errorf("%s: %d %q, %+v", name, res.StatusCode, body, e)
		}
	}
}

// corpus contains requests that two parsers could interpret differently.
var corpus = map[string]string{
	"length and encoding":         "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two lengths":                 "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
	"the same length twice":       "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
	"a list of lengths":           "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4, 4\r\n\r\nabcd",
	"a signed length":             "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: +4\r\n\r\nabcd",
	"a negative length":           "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: -4\r\n\r\nabcd",
	"a hexadecimal length":        "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0x4\r\n\r\nabcd",
	"an empty length":             "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length:\r\n\r\n",
	"a huge length":               "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"an odd encoding":             "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"two encodings":               "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"a list of encodings":         "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"an encoding of old":          "POST / HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"an encoding after a tab":     "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
	"a space before the colon":    "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"two hosts":                   "GET / HTTP/1.1\r\nHost: api.test\r\nHost: denied.test\r\n\r\n",
	"two hosts of old":            "GET / HTTP/1.0\r\nHost: api.test\r\nhost: api.test\r\n\r\n",
	"no host":                     "GET / HTTP/1.1\r\n\r\n",
	"an empty host":               "GET / HTTP/1.1\r\nHost:\r\nX: y\r\nhost: api.test\r\n\r\n",
	"a folded line":               "GET / HTTP/1.1\r\nHost: api.test\r\nX-A: b\r\n c\r\n\r\n",
	"a folded first line":         "GET / HTTP/1.1\r\n Host: denied.test\r\nHost: api.test\r\n\r\n",
	"a bare LF":                   "GET / HTTP/1.1\r\nHost: api.test\nX-A: b\r\n\r\n",
	"bare LFs":                    "GET / HTTP/1.1\nHost: api.test\n\n",
	"a bare CR":                   "GET / HTTP/1.1\r\nHost: api.test\r\nX-A: b\rContent-Length: 4\r\n\r\n",
	"CR CR LF":                    "GET / HTTP/1.1\r\nHost: api.test\r\r\n\r\n",
	"a NUL":                       "GET / HTTP/1.1\r\nHost: api.test\r\nX-A: b\x00c\r\n\r\n",
	"no colon":                    "GET / HTTP/1.1\r\nHost: api.test\r\nX-A\r\n\r\n",
	"no name":                     "GET / HTTP/1.1\r\nHost: api.test\r\n: b\r\n\r\n",
	"a space in a name":           "GET / HTTP/1.1\r\nHost: api.test\r\nX A: b\r\n\r\n",
	"a name not of ASCII":         "GET / HTTP/1.1\r\nHost: api.test\r\nX-\xc3\xa4: b\r\n\r\n",
	"a space in the target":       "GET /a b HTTP/1.1\r\nHost: api.test\r\n\r\n",
	"a tab for a space":           "GET\t/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
	"two spaces":                  "GET  / HTTP/1.1\r\nHost: api.test\r\n\r\n",
	"no version":                  "GET /\r\nHost: api.test\r\n\r\n",
	"an odd method":               "GE(T / HTTP/1.1\r\nHost: api.test\r\n\r\n",
	"an empty line first":         "\r\nGET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
	"a control in the target":     "GET /\x01 HTTP/1.1\r\nHost: api.test\r\n\r\n",
	"a host with a space":         "GET / HTTP/1.1\r\nHost: api.test denied.test\r\n\r\n",
	"a host with a user":          "GET / HTTP/1.1\r\nHost: api.test@denied.test\r\n\r\n",
	"a host with a path":          "GET / HTTP/1.1\r\nHost: api.test/denied.test\r\n\r\n",
	"a bad chunk":                 "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
	"a chunk without an end":      "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
	"a chunk's size and a LF":     "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
	"a signed chunk":              "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
	"a hexadecimal chunk":         "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
	"a CR within an extension":    "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n",
	"a folded trailer":            "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n z\r\n\r\n",
	"a bare LF after the trailer": "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n",
}

func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		w := newTestProxy(t, scheme, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Errorf("a request was forwarded: %s %s %v", r.Method, r.RequestURI, r.Header)
			}
		})
		for name, raw := range corpus {
			res, _ := w.exchange(raw)
			if res.StatusCode != 400 {
				t.Errorf("%s over %s: status %d", name, scheme, res.StatusCode)
				continue
			}
			if strings.HasPrefix(name, "a host with") {
				continue // net/http may refuse the request before the handler, which then records nothing
			}
			if e := w.next(); !e.Refused || e.Status != 400 || e.Rule != "http framing" || e.Err == nil {
				t.Errorf("%s over %s: recorded %+v", name, scheme, e)
			}
		}
	}
}

func TestRefusedRequestClosesConnection(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	c := w.conn()
	if _, err := io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\n"+
		"POST /2 HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX: y\r\n\r\n"+
		"DELETE /3 HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"+
		"GET /4 HTTP/1.1\r\nHost: api.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for i, want := range []int{200, 200, 400} {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if e := w.next(); res.StatusCode != want || e.Status != want || e.Method != []string{"GET", "POST", "DELETE"}[i] {
			t.Errorf("answer %d: %d, recorded %+v", i+1, res.StatusCode, e)
		}
	}
	if _, err := http.ReadResponse(in, nil); err == nil {
		t.Error("a request after the refused one was answered")
	}
}

func TestCleartextHTTP2IsRefused(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	if res, _ := w.exchange("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); res.StatusCode != 505 {
		t.Errorf("status %d", res.StatusCode)
	}
	res, body := w.exchange("GET /a HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if res.StatusCode != 200 || body != "api.test /a" {
		t.Errorf("an offer to upgrade: %d %q", res.StatusCode, body)
	}
}

func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("X-Long"))) }, func(w *testProxy) {
		w.server.Config.MaxHeaderBytes = 2 << 20
	})
	c := w.conn()
	go io.WriteString(c, "GET /a HTTP/1.1\r\nHost: api.test\r\nX-Long: "+strings.Repeat("x", 128<<10)+"\r\n\r\n") // fails if the proxy closes the connection early
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := w.next(); res.StatusCode != 431 || e.Status != 431 || !e.Refused || e.Method != "GET" {
		t.Errorf("got %d, recorded %+v", res.StatusCode, e)
	}
	if res, body := w.exchange("GET /a HTTP/1.1\r\nHost: api.test\r\nX-Long: " + strings.Repeat("x", 128<<10-100) + "\r\n\r\n"); res.StatusCode != 200 || body != fmt.Sprint(128<<10-100) {
		t.Errorf("just below the limit: %d %q", res.StatusCode, body)
	}
	h2 := newTestProxy(t, "https", echoHost)
	r := request(t, "GET", h2.base(), nil)
	for i := range 5 {
		r.Header.Set(fmt.Sprint("X-Long-", i), strings.Repeat("x", 128<<10/4))
	}
	res, err = h2.client(true).Do(r) // an error is correct, too: the proxy may close the connection
	if err == nil {
		res.Body.Close()
		if res.StatusCode != 431 {
			t.Errorf("HTTP/2: status %d", res.StatusCode)
		}
	}
}

// The headers of all requests in progress have a common limit, too.
func TestTotalHeaderLimit(t *testing.T) {
	t.Parallel()
	var heads atomic.Int64
	w := newTestProxy(t, "http", echoHost, handler(func(h *proxy.Handler) { h.HeaderBytes = &heads }))
	ask := func() int {
		res, _ := w.exchange("GET /a HTTP/1.1\r\nHost: api.test\r\nX-Long: x\r\n\r\n")
		if e := w.next(); e.Status != res.StatusCode || e.Refused != (res.StatusCode == 431) {
			t.Errorf("recorded %+v", e)
		}
		return res.StatusCode
	}
	if got := ask(); got != 200 || heads.Load() != 0 {
		t.Errorf("%d, and %d bytes are left", got, heads.Load())
	}
	heads.Store(64 << 20)
	if got := ask(); got != 431 || heads.Load() != 64<<20 {
		t.Errorf("%d, and %d bytes are left", got, heads.Load())
	}
}

func TestRecordedURLIsLimited(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	w.exchange("GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if e := w.next(); len(e.URL) != 2048 {
		t.Errorf("%d bytes", len(e.URL))
	}
}
