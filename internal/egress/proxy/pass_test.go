package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// everyWay runs a test with each combination of the protocol between client and proxy and
// the protocol between proxy and server.
func everyWay(t *testing.T, upstream http.HandlerFunc, test func(t *testing.T, w *testProxy, c *http.Client)) {
	t.Helper()
	for name, way := range map[string]struct {
		scheme string
		h2     bool
		server option
	}{
		"http":      {"http", false, http1Only},
		"h1 to h1":  {"https", false, http1Only},
		"h1 to h2":  {"https", false, func(*testProxy) {}},
		"h2 to h1":  {"https", true, http1Only},
		"h2 and h2": {"https", true, func(*testProxy) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestProxy(t, way.scheme, upstream, way.server)
			test(t, w, w.client(way.h2))
		})
	}
}

func TestRequestIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		var h []string
		for name := range maps.Keys(r.Header) {
			h = append(h, name+"="+strings.Join(r.Header[name], "|"))
		}
		slices.Sort(h)
		body, _ := io.ReadAll(r.Body)
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Connection", "X-Private")
		w.Header().Set("X-Private", "hop")
		w.Header().Set("X-Proto", r.Proto)
		w.WriteHeader(418)
		fmt.Fprintf(w, "%s %s %s %s %q", r.Method, r.Host, r.RequestURI, strings.Join(h, ","), body)
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		for _, target := range []string{"/", "/a%2Fb/%7e?q=%20+&&=;x", "//double//slash?", "/ü\"<>[]|?a=\"b\""} {
			r := request(t, "PUT", w.base()+"/", strings.NewReader("hello"))
			r.URL.Opaque, r.URL.RawQuery, _ = strings.Cut(target, "?")
			r.URL.ForceQuery = strings.HasSuffix(target, "?")
			if strings.HasPrefix(target, "//") {
				r.URL.Path, r.URL.Opaque = r.URL.Opaque, ""
			}
			r.Header = http.Header{"User-Agent": {""}, "X-Two": {"1", "2"}, "Proxy-Authorization": {"hop"}, "Accept-Encoding": {"br"}}
			res, body := do(t, c, r)
			want := fmt.Sprintf(`PUT api.test %s Accept-Encoding=br,Content-Length=5,X-Two=1|2 "hello"`, target)
			if diff := cmp.Diff(want, body); diff != "" {
				t.Errorf("the request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a=1", "b=2"}, res.Header["Set-Cookie"]); diff != "" {
				t.Errorf("cookies (-want +got):\n%s", diff)
			}
			if res.StatusCode != 418 || res.ContentLength != int64(len(want)) || res.Header.Get("X-Private") != "" && w.server.EnableHTTP2 == false {
				t.Errorf("response: %d, length %d, %v", res.StatusCode, res.ContentLength, res.Header)
			}
			if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[w.server.EnableHTTP2]; res.Header.Get("X-Proto") != want {
				t.Errorf("the server received %s, want %s", res.Header.Get("X-Proto"), want)
			}
			e := w.next()
			proto := map[int]string{1: "http/1.1", 2: "h2"}[res.ProtoMajor]
			if diff := cmp.Diff(proxy.Exchange{
				Method: "PUT", URL: w.base() + target, Host: "api.test", Port: w.h.Port, Protocol: proto,
				Status: 418, RequestBytes: 5, ResponseBytes: int64(len(want)), Rule: "allow api.test",
			}, e, cmpopts.IgnoreFields(proxy.Exchange{}, "Begin", "Duration"), cmpopts.IgnoreUnexported(proxy.Exchange{})); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if e.Begin.IsZero() || e.Duration <= 0 {
				t.Errorf("times: %v, %v", e.Begin, e.Duration)
			}
		}
	})
}

func TestResponsesWithoutBody(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/head":
			w.Header().Set("Content-Length", "12345")
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(304)
		}
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		for path, want := range map[string]struct {
			method string
			status int
			length int64
		}{"/head": {"HEAD", 200, 12345}, "/204": {"GET", 204, 0}, "/304": {"GET", 304, 0}, "/empty": {"GET", 200, 0}, "/post": {"POST", 200, 0}} {
			res, body := do(t, c, request(t, want.method, w.base()+path, nil))
			if res.StatusCode != want.status || body != "" || path == "/head" && res.ContentLength != want.length {
				t.Errorf("%s: %d, length %d, %q", path, res.StatusCode, res.ContentLength, body)
			}
			if res.Header.Get("Date") != "" || res.Header.Get("Content-Type") != "" {
				t.Errorf("%s: headers were added: %v", path, res.Header)
			}
			if e := w.next(); e.Status != want.status || e.ResponseBytes != 0 || e.Err != nil {
				t.Errorf("%s: recorded %+v", path, e)
			}
		}
	})
}

func TestCompressedBytesPassUnchanged(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, strings.Repeat("text ", 1000))
	z.Close()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Asked", strings.Join(r.Header["Accept-Encoding"], "|"))
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped.Bytes())
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		for _, asked := range []string{"", "gzip"} {
			r := request(t, "GET", w.base(), nil)
			if asked != "" {
				r.Header.Set("Accept-Encoding", asked)
			}
			res, body := do(t, c, r)
			if body != zipped.String() || res.Header.Get("X-Asked") != asked || res.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("Accept-Encoding %q: %d bytes, %v", asked, len(body), res.Header)
			}
		}
	})
}

func TestTrailersInBothDirections(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-Check"))
		w.Header().Set("X-Sum", "after")
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		r := request(t, "POST", w.base(), io.MultiReader(strings.NewReader("body"))) // of unknown length
		r.Trailer = http.Header{"X-Check": {"42"}}
		res, body := do(t, c, r)
		if diff := cmp.Diff("body 42", body); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if res.Trailer.Get("X-Sum") != "after" || res.Trailer.Get("X-Late") != "unannounced" {
			t.Errorf("trailers: %v", res.Trailer)
		}
	})
}

func TestEventsAreNotDelayed(t *testing.T) {
	t.Parallel()
	var steps sync.Map
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		ch, _ := steps.LoadOrStore(r.URL.Path, make(chan struct{}))
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-ch.(chan struct{})
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-ch.(chan struct{})
		}
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		path := "/" + strings.ReplaceAll(t.Name(), " ", "_")
		v, _ := steps.LoadOrStore(path, make(chan struct{}))
		ch := v.(chan struct{})
		res, err := c.Do(request(t, "GET", w.base()+path, nil)) // the headers arrive before the body
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for i := range 3 {
			ch <- struct{}{} // after the event, the handler waits again, so its end does not flush the event
			buf := make([]byte, 9)
			if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != fmt.Sprintf("data: %d\n\n", i) {
				t.Fatalf("event %d: %q, %v", i, buf, err)
			}
		}
		close(ch)
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("the end: %q, %v", rest, err)
		}
	})
}

func TestBothDirectionsAtOnce(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.ProtoMajor == 1 {
			_ = control.EnableFullDuplex()
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("X-Te", r.Header.Get("Te"))
		_ = control.Flush()
		buf := make([]byte, 4)
		for {
			if _, err := io.ReadFull(r.Body, buf); err != nil {
				break
			}
			_, _ = w.Write(bytes.ToUpper(buf))
			_ = control.Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		in, out := io.Pipe()
		r := request(t, "POST", w.base()+"/service/Method", in)
		r.Header.Set("Te", "trailers")
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for _, word := range []string{"ping", "pong", "last"} {
			if _, err := io.WriteString(out, word); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 4)
			if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != strings.ToUpper(word) {
				t.Fatalf("%s: %q, %v", word, buf, err)
			}
		}
		out.Close()
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
			t.Errorf("the end: %q, %v", rest, err)
		}
		if res.Trailer.Get("Grpc-Status") != "0" || res.Header.Get("X-Te") != "trailers" {
			t.Errorf("trailers %v, TE %q", res.Trailer, res.Header.Get("X-Te"))
		}
	})
}

func TestEarlyHintsAndContinue(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		var body []byte
		if r.ProtoMajor == 2 { // a hint that arrives while the body is requested may be dropped
			body, _ = io.ReadAll(r.Body)
		}
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		rest, _ := io.ReadAll(r.Body)
		body = append(body, rest...)
		_, _ = w.Write(body)
	}, func(t *testing.T, w *testProxy, c *http.Client) {
		for path, want := range map[string]int{"/yes": 200, "/no": 417} {
			r := request(t, "POST", w.base()+path, strings.NewReader("body"))
			r.Header.Set("Expect", "100-continue")
			hints := make(chan string, 8)
			res, body := do(t, c, r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					if code == 103 {
						hints <- h.Get("Link")
					}
					return nil
				},
			})))
			if res.StatusCode != want {
				t.Fatalf("%s: status %d", path, res.StatusCode)
			}
			e := w.next()
			if want == 417 {
				if e.RequestBytes != 0 && e.Protocol == "http/1.1" { // Go's HTTP/2 server hides the header Expect from the handler
					t.Errorf("%d bytes were sent although the server refused them", e.RequestBytes)
				}
				continue
			}
			if body != "body" || res.Header.Get("Link") != "" {
				t.Errorf("response: %q, %v", body, res.Header)
			}
			if link := <-hints; link != "</style.css>" {
				t.Errorf("hint: %q", link)
			}
		}
	})
}

func TestServerConnectionsAreReused(t *testing.T) {
	t.Parallel()
	everyWay(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) },
		func(t *testing.T, w *testProxy, c *http.Client) {
			// net/http closes a connection on which a request was not written
			// within 50 ms of the response; the next attempt uses new connections.
			var n int64
			for try := 0; try < 5 && n != 1; try++ {
				c.CloseIdleConnections()
				before := w.dials.Load()
				for range 5 {
					if _, body := do(t, c, request(t, "POST", w.base(), strings.NewReader("x"))); body != "x" {
						t.Errorf("got %q", body)
					}
				}
				n = w.dials.Load() - before
			}
			if n != 1 {
				t.Errorf("%d connections for five requests of one client", n)
			}
			before := w.dials.Load()
			do(t, w.client(false), request(t, "GET", w.base(), nil))
			if n := w.dials.Load() - before; n != 1 {
				t.Errorf("another client uses the connection of the first one")
			}
		})
}

func TestClosedPooledConnectionIsRetried(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "text") })
	c := w.client(false)
	for range 20 {
		if res, body := do(t, c, request(t, "GET", w.base(), nil)); res.StatusCode != 200 || body != "text" {
			t.Fatalf("got %d %q", res.StatusCode, body)
		}
		w.server.CloseClientConnections()
	}
}

func TestRequestsAreRecordedOneAtATime(t *testing.T) {
	t.Parallel()
	recorded := make(chan int, 64)
	n := 0 // the race detector reports overlapping calls
	w := newTestProxy(t, "https", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, handler(func(h *proxy.Handler) {
		h.Record = func(proxy.Exchange) { n++; recorded <- n }
	}))
	c := w.client(true)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			text := fmt.Sprint("text ", i)
			res, err := c.Do(request(t, "POST", w.base(), strings.NewReader(text)))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != text {
				t.Errorf("got %q, %v", body, err)
			}
		})
	}
	wg.Wait()
	for i := range 50 {
		if got := <-recorded; got != i+1 {
			t.Fatalf("record %d has number %d", i+1, got)
		}
	}
}

// pair returns the two ends of a new TCP connection.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestServeReturnsCause(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "http", echoHost)
	for sent, want := range map[string]error{
		"": nil, "GET / HT": nil, "GET /a HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n": nil, "\x16\x03\x01 is no HTTP\n": nil,
	} {
		client, server := pair(t)
		if _, err := io.WriteString(client, sent); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(sent, "\n") {
			client.Close()
		}
		if err := w.h.Serve(t.Context(), server); !errors.Is(err, want) {
			t.Errorf("after %q: %v", sent, err)
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after %q the connection is still open: %v", sent, err)
		}
	}
	if n := len(w.exchanges); n != 2 { // the valid request and the malformed one
		t.Errorf("%d exchanges were recorded, want 2", n)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the run has ended")
	cancel(stopped)
	_, server := pair(t)
	if err := w.h.Serve(ctx, server); !errors.Is(err, stopped) {
		t.Errorf("after the end of the context: %v", err)
	}
	_, server = pair(t)
	if err := w.h.ServeTLS(ctx, server, w.ca); err == nil {
		t.Error("a handshake after the end of the context succeeded")
	}
	client, server := pair(t)
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.h.ServeTLS(t.Context(), server, w.ca); err == nil || !strings.Contains(err.Error(), "terminating TLS for api.test") {
		t.Errorf("a client without TLS: %v", err)
	}
}
