package egress_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/tlsca"
)

func TestHTTPRequestsAreLogged(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.web(t, "shop", site+":80")
	w.name("shop.example", site)
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example:80"}})
	status, body, err := b.get("http://shop.example/a?b=c")
	if err != nil || status != 200 || body != "shop for shop.example" {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	got := b.await("of the request", func(e log.Entry) bool { return e.Method == "GET" && !e.Open })
	want := log.Entry{
		Connection: 1, Action: log.Allow, Rule: "allow shop.example:80", Protocol: "http/1.1", Method: "GET",
		URL: "http://shop.example/a?b=c", Host: "shop.example", Port: 80, Status: 200, ResponseBytes: 21,
	}
	if got.Time.IsZero() || got.Duration <= 0 {
		t.Errorf("entry %+v", got)
	}
	got.Time, got.Duration = time.Time{}, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(w.dials()); n != 1 {
		t.Errorf("dialed %d times", n)
	}
}

func TestRefusedHTTPNamesMissingRule(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.name("shop.example", site)
	w.web(t, "shop", site+":8080")
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example:80"}})
	status, body, err := b.get("http://shop.example:8080/")
	if err != nil || status != 403 || !strings.Contains(body, "shop.example") || !strings.Contains(body, "to network.allow") {
		t.Errorf("%d %s, %v", status, body, err)
	}
	e := b.denied("not in network.allow")
	if e.Status != 403 || e.Method != "GET" || e.Host != "shop.example" || e.Port != 8080 || e.URL != "http://shop.example:8080/" {
		t.Errorf("entry %+v", e)
	}
	if dials := w.dials(); len(dials) > 0 {
		t.Errorf("dialed %v", dials)
	}
}

func TestUnreachableHTTPReturns502(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.name("gone.example", site)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken, err := net.Dial("tcp", l.Addr().String()) // reserves a port without a listener
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	w.at(taken.LocalAddr().String(), site+":80", site+":9")
	b := w.open(t, options{})
	status, body, err := b.get("http://gone.example/")
	if err != nil || status != 502 || body != "gone.example did not respond: connection refused.\n" {
		t.Errorf("%d %s, %v", status, body, err)
	}
	b.await("of the failure", func(e log.Entry) bool {
		return e.Status == 502 && e.Action == log.Allow && e.Error == "connection refused"
	})
	isReset(t, b.dial("gone.example", 9))
	b.await("of the failure", func(e log.Entry) bool {
		return e.Protocol == "tcp" && e.Rule == "public" && e.Error == "connection refused"
	})
}

// exchangeRaw writes each request to a connection and reads its response. It returns the
// status codes; 0 stands for a missing response and ends the exchange.
func exchangeRaw(t *testing.T, c net.Conn, requests ...string) (statuses []int) {
	t.Helper()
	in := bufio.NewReader(c)
	for _, r := range requests {
		if _, err := c.Write([]byte(r)); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(in, nil)
		if err != nil {
			return append(statuses, 0)
		}
		_, _ = io.Copy(io.Discard, a.Body)
		a.Body.Close()
		statuses = append(statuses, a.StatusCode)
	}
	return statuses
}

func TestPolicyAppliesToEachRequest(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.web(t, "shop", site+":80")
	w.web(t, "evil", "198.41.0.4:80")
	w.web(t, "metadata", "169.254.169.254:80")
	w.name("shop.example", site)
	w.name("evil.test", "198.41.0.4")
	w.name("inner.shop.example", "10.0.0.1")
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example", "*.shop.example"}})
	for _, c := range []struct {
		second string
		status int
		rule   string
	}{
		{"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n", 200, ""},
		{"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "not in network.allow"},
		{"GET / HTTP/1.1\r\nHost: inner.shop.example\r\n\r\n", 403, "private address"},
		{"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", 403, "metadata address"},
		{"GET / HTTP/1.1\r\nHost: host.stint.internal\r\n\r\n", 403, "not in network.allow"},
		{"GET http://evil.test/ HTTP/1.1\r\nHost: shop.example\r\n\r\n", 400, "http framing"},
		{"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 400, "http framing"},
		{"GET / HTTP/1.1\r\nHost: shop.example\r\nHost: evil.test\r\n\r\n", 400, "http framing"},
		{"GET / HTTP/1.1\r\nHost: shop.example\r\n Host: evil.test\r\n\r\n", 400, "http framing"},
		{"GET / HTTP/1.1\r\nHost: shop.example\r\nX: a\nHost: evil.test\r\n\r\n", 400, "http framing"},
		{"POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "http framing"},
		{"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n", 405, "http framing"},
	} {
		conn := b.dial("shop.example", 80)
		got := exchangeRaw(t, conn, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n", c.second)
		if diff := cmp.Diff([]int{200, c.status}, got); diff != "" {
			t.Errorf("%q: %s", c.second, diff)
		}
		if c.rule != "" {
			b.await(c.second, func(e log.Entry) bool {
				return e.Action == log.Deny && e.Rule == c.rule && e.Status == c.status && e.Protocol != "dns"
			})
		}
	}
	for _, d := range w.dials() {
		if d != site+":80" {
			t.Errorf("dialed %s", d)
		}
	}
}

func TestLenientOpenings(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.serve(t, func(c net.Conn) {
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("the server is sent %q", got)
		}
	}, site+":80")
	w.name("shop.example", site)
	b := w.open(t, options{mode: policy.Restricted, allow: []string{"shop.example"}})
	for _, opening := range []string{
		"\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"\nGET / HTTP/1.1\nHost: evil.test\n\n",
		"GET\t/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"get / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"GE\"T / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"GET /\x7f HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		" GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
	} {
		c := b.dial("shop.example", 80)
		_, _ = c.Write([]byte(opening))
		_ = c.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(c)
		if strings.HasPrefix(string(answer), "HTTP/1.1 2") {
			t.Errorf("%q is answered %q", opening, answer)
		}
	}
}

func TestRedirectsAreNewConnections(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.web(t, "shop", site+":80")
	w.web(t, "inner", "10.0.0.1:80", "169.254.169.254:80", "127.0.0.1:80")
	w.name("shop.example", site)
	w.name("inner.example", "10.0.0.1")
	b := w.open(t, options{})
	for to, rule := range map[string]string{
		"http://10.0.0.1/":                      "private address",
		"http://169.254.169.254/latest":         "metadata address",
		"http://[::ffff:169.254.169.254]/":      "metadata address",
		"http://host.stint.internal/":           "not in network.allow",
		"http://inner.example/":                 "private address",
		"http://[64:ff9b::a9fe:a9fe]/meta-data": "metadata address",
	} {
		status, _, err := b.get("http://shop.example/?to=" + url.QueryEscape(to))
		if err == nil && status != 403 {
			t.Errorf("the redirect to %s returns %d", to, status)
		}
		b.denied(rule)
	}
	for _, d := range w.dials() {
		if d != site+":80" {
			t.Errorf("dialed %s", d)
		}
	}
}

func TestHostOfAddresses(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.web(t, "at the address", site+":80", "10.0.0.1:80", "127.0.0.1:80")
	w.web(t, "at the name", "198.41.0.4:80")
	w.name("named.example", "198.41.0.4")
	b := w.open(t, options{allow: []string{"10.0.0.1"}})
	for _, c := range []struct{ target, host, want string }{
		{site, site, "at the address for " + site},
		{site, "named.example", "at the name for named.example"}, // the named host is dialed, so the log contains the true destination
		{"10.0.0.1", "named.example", "at the address for named.example"},
		{"10.0.0.1", "no.such.example", "at the address for no.such.example"},
		{"10.0.0.1", "host.stint.internal", "403"},
	} {
		conn := b.connect(c.target + ":80")
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", c.host); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		if got := string(body); got != c.want && fmt.Sprint(r.StatusCode) != c.want {
			t.Errorf("%s for %s returns %d %s", c.target, c.host, r.StatusCode, got)
		}
	}
}

func TestInspectedHostsLogRequests(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	cert, roots := issue(t, "api.example", "plain.example", "front.example")
	seen := make(chan string, 1)
	w.serve(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		r, err := http.ReadRequest(bufio.NewReader(s))
		if err != nil {
			return
		}
		seen <- r.Header.Get("Authorization")
		_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		_ = s.CloseWrite()
		_, _ = io.Copy(io.Discard, s)
	}, site+":443")
	for _, name := range []string{"api.example", "plain.example", "front.example"} {
		w.name(name, site)
	}
	ca, err := tlsca.Open(filepath.Join(t.TempDir(), "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	trusted := roots.Clone()
	trusted.AppendCertsFromPEM(ca.PEM())
	b := w.open(t, options{
		mode: policy.Restricted, allow: []string{"*.example"},
		config: func(c *egress.Config) { c.Authority, c.Roots = ca, roots },
		run: func(r *egress.RunConfig) {
			r.Inspect = []string{"front.example:443"}
			r.Secrets = []policy.Secret{{Name: "KEY", Placeholder: "stint-placeholder-1", Value: "opensesame", Hosts: []string{"api.example"}}}
		},
	})
	get := func(host string, roots *x509.CertPool) (string, error) {
		tr := b.transport()
		tr.TLSClientConfig = &tls.Config{RootCAs: roots}
		r, err := http.NewRequest("GET", "https://"+host+"/v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer stint-placeholder-1")
		a, err := (&http.Client{Transport: tr, Timeout: waitLimit}).Do(r)
		if err != nil {
			return "", err
		}
		a.Body.Close()
		return <-seen, nil
	}
	if got, err := get("api.example", trusted); err != nil || got != "Bearer opensesame" {
		t.Errorf("the secret's host got %q, %v", got, err)
	}
	b.await("of the request", func(e log.Entry) bool {
		return e.URL == "https://api.example/v1" && e.Status == 200 && e.Rule == "allow *.example" && slices.Equal(e.Secrets, []string{"KEY"})
	})
	if got, err := get("front.example", trusted); err != nil || got != "Bearer stint-placeholder-1" {
		t.Errorf("the inspected host got %q, %v", got, err)
	}
	b.await("of the request", func(e log.Entry) bool {
		return e.URL == "https://front.example/v1" && e.Status == 200 && e.Secrets == nil
	})
	// If a host is neither inspected nor has secrets, clients see its own certificate.
	if got, err := get("plain.example", roots); err != nil || got != "Bearer stint-placeholder-1" {
		t.Errorf("the plain host got %q, %v", got, err)
	}
	b.await("of the tunnel", func(e log.Entry) bool {
		return e.Host == "plain.example" && e.Protocol == "tls" && e.Method == ""
	})
	if _, err := get("api.example", roots); err == nil {
		t.Error("a client that does not trust the authority has a response")
	}
	b.await("of the failure", func(e log.Entry) bool { return e.Host == "api.example" && e.Error != "" })
}

func TestLongRequestIsLoggedAtStart(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	release := make(chan struct{})
	defer close(release)
	w.serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			<-release
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}, site+":80")
	w.name("slow.example", site)
	b := w.open(t, options{})
	c := b.dial("slow.example", 80)
	in := bufio.NewReader(c)
	for i := range 2 {
		if _, err := fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: slow.example\r\n\r\n", i); err != nil {
			t.Fatal(err)
		}
		target := fmt.Sprintf("http://slow.example/%d", i)
		b.await("of the start of "+target, func(e log.Entry) bool {
			return e.Open && e.Connection == 1 && e.URL == target && e.Method == "GET" && e.Protocol == "http/1.1"
		})
		release <- struct{}{}
		if _, err := http.ReadResponse(in, nil); err != nil {
			t.Fatal(err)
		}
		b.await("of the end of "+target, func(e log.Entry) bool { return !e.Open && e.URL == target && e.Status == 200 })
	}
}
