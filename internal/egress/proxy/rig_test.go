package proxy_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
	"github.com/stint-dev/stint/internal/egress/tlsca"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const waitLimit = time.Minute

// servers returns the certificate of the servers in these tests, for api.test and
// all names below other.test, and the roots that trust it.
var servers = sync.OnceValue(makeServers)

type trusted struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

func makeServers() (s trusted) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "servers"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"api.test", "*.other.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	s.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(leaf)
	return s
}

// testProxy contains a Handler, a listener for connections that the Handler serves, and the
// server that receives the forwarded requests.
type testProxy struct {
	t         testing.TB
	h         *proxy.Handler
	ca        *tlsca.Authority
	caFile    string
	addr      string
	server    *httptest.Server
	exchanges chan proxy.Exchange
	cancel    context.CancelFunc
	dials     atomic.Int64

	mu    sync.Mutex
	asked []string // host:port of each call of Dial
	ended []error  // results of Serve and ServeTLS
}

// option changes a testProxy before it starts.
type option func(*testProxy)

func handler(edit func(*proxy.Handler)) option { return func(w *testProxy) { edit(w.h) } }

func secrets(all ...policy.Secret) option {
	return handler(func(h *proxy.Handler) { h.Secrets = all })
}

func http1Only(w *testProxy) { w.server.EnableHTTP2 = false }

// newTestProxy starts a server and a Handler for api.test:443 ("https") or
// api.test:80 ("http").
func newTestProxy(t testing.TB, scheme string, upstream http.HandlerFunc, options ...option) *testProxy {
	t.Helper()
	w := &testProxy{t: t, exchanges: make(chan proxy.Exchange, 256), caFile: filepath.Join(t.TempDir(), "ca.pem")}
	w.server = httptest.NewUnstartedServer(upstream)
	w.server.EnableHTTP2 = true
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.h = &proxy.Handler{
		Scheme: scheme, Host: "api.test", Port: 80, Roots: servers().roots, Now: time.Now,
		Dial: w.dial, Record: func(e proxy.Exchange) { w.exchanges <- e },
	}
	var err error
	if w.ca, err = tlsca.Open(w.caFile, time.Now); err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		o(w)
	}
	if scheme == "https" {
		w.h.Port = 443
		w.server.TLS = &tls.Config{Certificates: []tls.Certificate{servers().cert}}
		w.server.StartTLS()
	} else {
		w.server.Start()
	}
	t.Cleanup(w.server.Close)
	w.listen()
	return w
}

func (w *testProxy) dial(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
	w.mu.Lock()
	w.asked = append(w.asked, fmt.Sprintf("%s:%d", host, port))
	w.mu.Unlock()
	switch {
	case strings.HasPrefix(host, "denied"):
		return nil, "", policy.Refusal{Rule: "deny all", Message: "Connections to " + host + " are not allowed."}
	case strings.HasPrefix(host, "down"):
		return nil, "", errors.New("connection refused")
	}
	w.dials.Add(1)
	c, err := new(net.Dialer).DialContext(ctx, "tcp", w.server.Listener.Addr().String())
	return c, "allow " + host, err
}

func (w *testProxy) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				err := w.serve(ctx, c)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.ended = append(w.ended, err)
			})
		}
	})
	w.t.Cleanup(func() { l.Close(); cancel(); wg.Wait() })
}

func (w *testProxy) serve(ctx context.Context, c net.Conn) error {
	if w.h.Scheme == "https" {
		return w.h.ServeTLS(ctx, c, w.ca)
	}
	return w.h.Serve(ctx, c)
}

// roots returns the root certificates that programs in the sandbox trust.
func (w *testProxy) roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(w.ca.PEM())
	return p
}

// client returns an HTTP client that connects to the Handler like a program in the sandbox.
// It uses HTTP/2 if h2 is true, and HTTP/1.1 otherwise.
func (w *testProxy) client(h2 bool) *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(!h2)
	p.SetHTTP2(h2)
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", w.addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: w.roots()}, Protocols: p, DisableCompression: true,
		ExpectContinueTimeout: waitLimit,
	}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (w *testProxy) base() string { return w.h.Scheme + "://api.test" }

// next waits for the next recorded Exchange and returns it.
func (w *testProxy) next() proxy.Exchange {
	w.t.Helper()
	select {
	case e := <-w.exchanges:
		return e
	case <-time.After(waitLimit):
		w.t.Fatal("no exchange was recorded")
		return proxy.Exchange{}
	}
}

// conn returns a connection from the sandbox to the Handler, with TLS if the scheme is https.
func (w *testProxy) conn() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(waitLimit))
	if w.h.Scheme == "https" {
		return tls.Client(c, &tls.Config{RootCAs: w.roots(), ServerName: w.h.Host})
	}
	return c
}

// exchange sends raw bytes on a new connection and reads one response.
func (w *testProxy) exchange(raw string) (*http.Response, string) {
	w.t.Helper()
	c := w.conn()
	if _, err := io.WriteString(c, raw); err != nil {
		w.t.Fatal(err)
	}
	method, _, _ := strings.Cut(raw, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("after %.60q: %v", raw, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(body)
}

func do(t testing.TB, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dialer returns a function for Handler.Dial that calls f.
func dialer(f func() (net.Conn, string, error)) func(context.Context, string, uint16) (net.Conn, string, error) {
	return func(context.Context, string, uint16) (net.Conn, string, error) { return f() }
}
