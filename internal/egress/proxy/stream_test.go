package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// upgrading returns a handler that switches protocols and sends "hello.". It then sends the
// received bytes in upper case, and "bye" when the client closes its direction.
func upgrading(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			http.Error(w, "no upgrade", http.StatusUpgradeRequired)
			return
		}
		if got := r.Header.Get("X-Key"); got != "" && got != map[bool]string{true: plain, false: placeholder}[r.TLS != nil] {
			t.Errorf("the server received %q", got)
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Accept: %s\r\n\r\nhello.", r.Header.Get("Upgrade"), r.Header.Get("Sec-WebSocket-Key"))
		buf := make([]byte, 4)
		for {
			if _, err := io.ReadFull(rw, buf); err != nil {
				break
			}
			_, _ = c.Write(bytes.ToUpper(buf))
		}
		fmt.Fprint(c, "bye")
	}
}

func TestUpgradeCopiesBytes(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		for _, protocol := range []string{"websocket", "other/1"} {
			w := newTestProxy(t, scheme, upgrading(t), secrets(token("api.test")))
			c := w.conn()
			fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Key: abc\r\nX-Key: %s\r\n\r\n", protocol, placeholder)
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 101 || res.Header.Get("Upgrade") != protocol || res.Header.Get("Connection") != "Upgrade" || res.Header.Get("Sec-Websocket-Accept") != "abc" {
				t.Fatalf("%s: %d %v", scheme, res.StatusCode, res.Header)
			}
			fmt.Fprint(c, "ping")
			buf := make([]byte, 10)
			if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "hello.PING" {
				t.Fatalf("%s: %q, %v", scheme, buf, err)
			}
			if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil { // the other direction stays open
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(in); err != nil || string(rest) != "bye" {
				t.Errorf("%s: after the client's end: %q, %v", scheme, rest, err)
			}
			if e := w.next(); e.Status != 101 || e.Protocol != protocol || e.RequestBytes != 4 || e.ResponseBytes != 13 || e.Err != nil || e.Rule != "allow api.test" {
				t.Errorf("%s: recorded %+v", scheme, e)
			}
		}
	}
}

func TestBytesBehindUpgradeAreForwarded(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", upgrading(t))
	c := w.conn()
	fmt.Fprint(c, "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: x/1\r\n\r\nping")
	in := bufio.NewReader(c)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	buf := make([]byte, 10)
	if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "hello.PING" {
		t.Errorf("%q, %v", buf, err)
	}
}

func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "https", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	res, body := w.exchange("GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if e := w.next(); res.StatusCode != 403 || body != "no\n" || e.Status != 403 || e.Refused {
		t.Errorf("got %d %q, %+v", res.StatusCode, body, e)
	}
}

func TestUnrequestedUpgrade(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		c.Close()
	})
	if res, _ := w.exchange("GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"); res.StatusCode != 502 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestContextEndsConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme      string
		h2, upgrade bool
	}{"http": {"http", false, false}, "h1": {"https", false, false}, "h2": {"https", true, false}, "upgrade": {"https", false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{}, 1)
			w := newTestProxy(t, c.scheme, func(w http.ResponseWriter, r *http.Request) {
				if c.upgrade {
					upgrading(t)(w, r)
				} else {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
				gone <- struct{}{}
			})
			r := request(t, "GET", w.base(), nil)
			if c.upgrade {
				r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
			}
			res, err := w.client(c.h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			w.cancel()
			if _, err := io.ReadAll(res.Body); err == nil && !c.upgrade {
				t.Error("the body ended like a complete one")
			}
			if e := w.next(); !errors.Is(e.Err, context.Canceled) {
				t.Errorf("recorded %v", e.Err)
			}
			<-gone
		})
	}
}

func TestContextEndsDial(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	w := newTestProxy(t, "http", echoHost, handler(func(h *proxy.Handler) {
		h.Dial = func(ctx context.Context, _ string, _ uint16) (net.Conn, string, error) {
			close(asked)
			<-ctx.Done()
			return nil, "", ctx.Err()
		}
	}))
	fmt.Fprint(w.conn(), "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	<-asked
	w.cancel()
	if e := w.next(); e.Status != 0 || !errors.Is(e.Err, context.Canceled) {
		t.Errorf("recorded %+v", e)
	}
}

// If a local handler fails because the end of the context closed its connection, the cause
// of the context is recorded instead of the handler's error.
func TestContextEndsLocalResponses(t *testing.T) {
	t.Parallel()
	var w *testProxy
	w = newTestProxy(t, "http", echoHost, handler(func(h *proxy.Handler) {
		h.Local = func(_ *http.Request, x *proxy.Exchange) proxy.LocalHandler {
			return func(http.ResponseWriter, *http.Request) (complete bool) {
				w.cancel()
				x.Err = net.ErrClosed
				return false
			}
		}
	}))
	fmt.Fprint(w.conn(), "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if e := w.next(); !errors.Is(e.Err, context.Canceled) {
		t.Errorf("recorded %v", e.Err)
	}
}

func TestClosedClientCancelsRequest(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		began, gone := make(chan struct{}), make(chan struct{})
		w := newTestProxy(t, "https", func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			close(gone)
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		if _, err := w.client(h2).Do(request(t, "GET", w.base(), nil).WithContext(ctx)); err == nil {
			t.Error("there is a response")
		}
		<-gone
		if e := w.next(); e.Status != 0 || !errors.Is(e.Err, context.Canceled) {
			t.Errorf("recorded %+v", e)
		}
	}
}

func TestTruncatedResponseIsDetected(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", "100")
		}
		fmt.Fprint(w, "part")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		for _, path := range []string{"/known", "/stream"} {
			res, err := c.Do(request(t, "GET", w.base()+path, nil))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err == nil {
				t.Errorf("%s: the body ended like a complete one", path)
			}
			if e := w.next(); e.Status != 200 || e.Err == nil || e.ResponseBytes != 4 {
				t.Errorf("%s: recorded %+v", path, e)
			}
		}
	})
}

// zeros is an infinite body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestLargeBodiesNeedLittleMemory(t *testing.T) { // not parallel: it measures the heap
	const size = 64 << 20
	for name, way := range map[string]struct {
		scheme string
		h2     bool
		server option
		secret bool
	}{"http": {"http", false, http1Only, false}, "h1": {"https", false, http1Only, false}, "h2": {"https", true, func(*testProxy) {}, false}, "concealed": {"https", true, func(*testProxy) {}, true}} {
		t.Run(name, func(t *testing.T) {
			var most atomic.Uint64
			w := newTestProxy(t, way.scheme, func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				if n != size || err != nil {
					t.Errorf("the server received %d bytes: %v", n, err)
				}
				note(&most)
				_, _ = io.CopyN(w, zeros{}, size/2)
				note(&most)
				_, _ = io.CopyN(w, zeros{}, size/2)
			}, way.server, func(w *testProxy) {
				if way.secret {
					secrets(token("api.test"))(w)
				}
			})
			r := request(t, "POST", w.base(), io.LimitReader(zeros{}, size))
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			res, err := w.client(way.h2).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
				t.Errorf("the client received %d bytes: %v", n, err)
			}
			if e := w.next(); e.RequestBytes != size || e.ResponseBytes != size || e.Err != nil {
				t.Errorf("recorded %+v", e)
			}
			if grown := int64(most.Load()) - int64(before.HeapAlloc); grown > 24<<20 { // buffers of client, proxy, and server, and garbage
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

func note(most *atomic.Uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > most.Load() {
		most.Store(m.HeapAlloc)
	}
}

// curl runs curl, which trusts the Handler's CA, and returns its output.
func (w *testProxy) curl(arguments ...string) (stdout, stderr string) {
	w.t.Helper()
	ca := filepath.Join(w.t.TempDir(), "roots.pem")
	if err := os.WriteFile(ca, w.ca.PEM(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "curl", append([]string{"-sS", "-q", "--cacert", ca}, arguments...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("curl %q: %v\n%s", arguments, err, &errs)
	}
	return out.String(), errs.String()
}

func TestCurl(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	echo := func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Method, r.Header.Get("Authorization"), n)
	}
	format := []string{"-w", " %{http_code} %{http_version} %{ssl_verify_result}"}
	for _, c := range []struct {
		scheme    string
		arguments []string
		want      string
	}{
		{"https", []string{"--http1.1", "-H", "Authorization: Bearer " + placeholder, "https://api.test/"}, "GET Bearer " + placeholder + " 0 200 1.1 0"},
		{"https", []string{"--http2", "-T", file, "https://api.test/"}, "PUT  3145728 200 2 0"},
		{"https", []string{"--http1.1", "-T", file, "https://api.test/"}, "PUT  3145728 200 1.1 0"}, // curl sends "Expect: 100-continue"
		{"https", []string{"--http1.1", "-T", file, "-H", "Transfer-Encoding: chunked", "https://api.test/"}, "PUT  3145728 200 1.1 0"},
		{"https", []string{"--http2", "-d", "abc", "https://api.test/"}, "POST  3 200 2 0"},
		{"http", []string{"--http2", "-d", "abc", "http://api.test/"}, "POST  3 200 1.1 0"}, // curl offers an upgrade to h2c
		{"http", []string{"--http1.0", "http://api.test/"}, "GET  0 200 1 0"},
		{"https", []string{"--http2", "-H", "Host: denied.test", "https://api.test/"}, "This connection is for api.test, but the request is for another host. Open another connection.\n 421 2 0"},
	} {
		w := newTestProxy(t, c.scheme, echo, secrets(token("api.test")))
		if got, _ := w.curl(append(append(format, "--connect-to", "::"+w.addr), c.arguments...)...); got != c.want {
			t.Errorf("curl %q: got %q, want %q", c.arguments, got, c.want)
		}
	}
	w := newTestProxy(t, "http", echo, handler(func(h *proxy.Handler) { h.Proxy, h.Host = true, "" }))
	if got, _ := w.curl("-x", "http://"+w.addr, "-d", "abc", "http://more.test/"); got != "POST  3" {
		t.Errorf("through a proxy: %q", got)
	}
}

// BenchmarkRequests measures requests through a Handler and directly: one client,
// one connection, 1 KiB of body in each direction.
func BenchmarkRequests(b *testing.B) {
	body := strings.Repeat("x", 1024)
	for _, way := range []struct {
		name, scheme string
		h2           bool
		secret       bool
	}{{"http", "http", false, false}, {"h1", "https", false, false}, {"h2", "https", true, false}, {"h2 with a secret", "https", true, true}} {
		w := newTestProxy(b, way.scheme, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		}, func(w *testProxy) {
			w.h.Record = nil
			if way.secret {
				secrets(token("api.test"))(w)
			}
		})
		through := w.client(way.h2)
		direct := w.client(way.h2)
		t := direct.Transport.(*http.Transport)
		t.TLSClientConfig = &tls.Config{RootCAs: servers().roots}
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", w.server.Listener.Addr().String())
		}
		for i, c := range []*http.Client{direct, through} {
			b.Run(way.name+"/"+[]string{"direct", "through"}[i], func(b *testing.B) {
				b.ReportAllocs()
				begin := time.Now()
				for b.Loop() {
					r := request(b, "POST", w.base(), strings.NewReader(body))
					r.Header.Set("Authorization", placeholder)
					if _, got := do(b, c, r); len(got) < 1024 {
						b.Fatal(got)
					}
				}
				b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "req/s")
			})
		}
	}
}

// BenchmarkDownload measures the throughput of large bodies.
func BenchmarkDownload(b *testing.B) {
	const size = 16 << 20
	for _, way := range []struct {
		name, scheme string
		h2           bool
	}{{"http", "http", false}, {"h1", "https", false}, {"h2", "https", true}} {
		w := newTestProxy(b, way.scheme, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, size) }, func(w *testProxy) { w.h.Record = nil })
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(size)
			c := w.client(way.h2)
			for b.Loop() {
				res, err := c.Do(request(b, "GET", w.base(), nil))
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
					b.Fatal(n, err)
				}
				res.Body.Close()
			}
		})
	}
}
