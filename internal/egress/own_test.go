package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress"
)

const (
	key      = "sk-ant-api03-the-key-itself"
	messages = "http://model.stint.internal/v1/messages"
	reply    = `{"model":"claude-x","content":[],"usage":{"input_tokens":10,"output_tokens":5}}`
	start    = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":4,\"output_tokens\":1}}}\n\n"
)

// host serves HTTP at addresses, within TLS where a certificate is given.
func (w *world) host(t testing.TB, cert *tls.Certificate, h http.HandlerFunc, addrs ...string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if cert != nil {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	w.at(s.Listener.Addr().String(), addrs...)
}

// tally is what was counted of a run's model.
type tally struct {
	mu     sync.Mutex
	models []string
	total  stint.Tokens
	heard  int
	news   chan struct{}
}

func newTally() *tally { return &tally{news: make(chan struct{}, 1000)} }

// model is an endpoint that counts here.
func (c *tally) model(kind, base string) *egress.Model {
	return &egress.Model{
		Type: kind, BaseURL: base, Key: key,
		Count: func(model string, t stint.Tokens) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.models = append(c.models, model)
			c.total.Add(t)
			c.news <- struct{}{}
		},
		Heard: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.heard++
		},
	}
}

// await waits until a call is counted.
func (c *tally) await(t testing.TB) {
	t.Helper()
	select {
	case <-c.news:
	case <-time.After(within):
		t.Fatal("no call was counted")
	}
}

func (c *tally) is(t testing.TB, want stint.Tokens) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.total); diff != "" {
		t.Errorf("counted %v\n%s", c.models, diff)
	}
}

// offering is a session whose model is Anthropic's at provider.test.
func (w *world) offering(t testing.TB, o options) (*box, *tally) {
	t.Helper()
	c := newTally()
	before := o.run
	o.run = func(r *egress.Run) {
		r.Model = c.model(stint.ProviderAnthropic, "http://provider.test")
		if before != nil {
			before(r)
		}
	}
	return w.open(t, o), c
}

// post asks as a program in the sandbox.
func (b *box) post(to, body string, headers ...string) (int, string, http.Header) {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return b.do(r)
}

func (b *box) do(r *http.Request) (int, string, http.Header) {
	b.t.Helper()
	c := &http.Client{Transport: b.transport(), Timeout: within, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(body), res.Header
}

func TestModelInEveryMode(t *testing.T) {
	t.Parallel()
	w := newWorld()
	cert, roots := issue(t, "provider.test")
	type asked struct{ Proto, Host, Path, Key, Auth, Cookie, Forwarded, Version, Body string }
	seen := make(chan asked, 1)
	w.host(t, &cert, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- asked{r.Proto, r.Host, r.RequestURI, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Forwarded-For"), r.Header.Get("Anthropic-Version"), string(body)}
		rw.Header().Set("Set-Cookie", "a=b")
		rw.Header().Set("Request-Id", "req_1")
		_, _ = io.WriteString(rw, reply)
	}, site+":443")
	w.name("provider.test", site)
	for _, mode := range []egress.Mode{egress.Public, egress.Restricted, egress.None} {
		t.Run(string(mode), func(t *testing.T) {
			c := newTally()
			b := w.open(t, options{
				mode: mode, config: func(c *egress.Config) { c.Roots = roots },
				run: func(r *egress.Run) { r.Model = c.model(stint.ProviderAnthropic, "https://provider.test") },
			})
			status, body, header := b.post(messages+"?beta=true", `{"model":"claude-asked"}`,
				"X-Api-Key", "sandbox", "Authorization", "Bearer sandbox", "Cookie", "c=d", "X-Forwarded-For", "1.2.3.4", "Anthropic-Version", "2023-06-01")
			if status != 200 || body != reply || header.Get("Request-Id") != "req_1" || header.Get("Set-Cookie") != "" {
				t.Errorf("%d %s %v", status, body, header)
			}
			want := asked{Proto: "HTTP/2.0", Host: "provider.test", Path: "/v1/messages?beta=true", Key: key, Version: "2023-06-01", Body: `{"model":"claude-asked"}`}
			if diff := cmp.Diff(want, <-seen); diff != "" {
				t.Error(diff)
			}
			c.is(t, stint.Tokens{InputTokens: 10, OutputTokens: 5, ModelCalls: 1})
			if c.models[0] != "claude-x" || c.heard == 0 {
				t.Errorf("counted for %v, heard %d times", c.models, c.heard)
			}
			got := b.await("of the request", func(e egress.Entry) bool { return e.Method == "POST" && !e.Open })
			if got.Time.IsZero() || got.Duration <= 0 {
				t.Errorf("entry %+v", got)
			}
			got.Time, got.Duration = time.Time{}, 0
			entry := egress.Entry{
				Connection: 1, Action: egress.Allow, Rule: "provider", Protocol: "http/1.1", Method: "POST", URL: "https://provider.test/v1/messages?beta=true",
				Host: "provider.test", Port: 443, Status: 200, RequestBytes: 24, ResponseBytes: int64(len(reply)),
			}
			if diff := cmp.Diff(entry, got); diff != "" {
				t.Error(diff)
			}
			isReset(t, b.dial("model.stint.internal", 443))
			b.denied("no such port")
			if _, err := b.lookup("api.stint.internal"); err == nil {
				t.Error("the API's name resolves, though the run is not given it")
			}
			if _, err := b.lookup("provider.test"); (err == nil) != (mode == egress.Public) {
				t.Errorf("the provider's name in the sandbox: %v", err)
			}
		})
	}
}

func TestModelIsNotThereWithoutOne(t *testing.T) {
	t.Parallel()
	for _, mode := range []egress.Mode{egress.Public, egress.Restricted, egress.None} {
		b := newWorld().open(t, options{mode: mode, run: func(r *egress.Run) { r.APIToken = "token" }}) // but no API
		for _, name := range []string{"model.stint.internal", "api.stint.internal"} {
			if a, err := b.lookup(name); err == nil {
				t.Errorf("%s in mode %s is %s", name, mode, a)
			}
		}
	}
}

func TestModelKeysAndPaths(t *testing.T) {
	t.Parallel()
	w := newWorld()
	type asked struct{ Path, Key, Auth, Beta string }
	seen := make(chan asked, 1)
	w.host(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		seen <- asked{r.Method + " " + r.RequestURI, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("Anthropic-Beta")}
	}, site+":80")
	w.name("provider.test", site)
	for _, c := range []struct {
		kind, base, key, method, path string
		want                          asked
	}{
		{"anthropic", "http://provider.test", "k", "POST", "/v1/messages", asked{"POST /v1/messages", "k", "", "a,b"}},
		{"anthropic", "http://provider.test/v1", "k", "POST", "/v1/messages/count_tokens?x=%20", asked{"POST /v1/messages/count_tokens?x=%20", "k", "", "a,b"}},
		{"anthropic", "http://provider.test/deep/", "sk-ant-oat01-x", "GET", "/v1/models/claude%2Fx", asked{"GET /deep/v1/models/claude%2Fx", "", "Bearer sk-ant-oat01-x", "oauth-2025-04-20,a,b"}},
		{"anthropic", "http://provider.test", "", "GET", "/v1/models", asked{"GET /v1/models", "", "", "a,b"}},
		{"openai-responses", "http://provider.test/v1", "k", "POST", "/v1/responses", asked{"POST /v1/responses", "", "Bearer k", "a,b"}},
		{"openai-responses", "http://provider.test/v1", "k", "POST", "/v1/responses/compact", asked{"POST /v1/responses/compact", "", "Bearer k", "a,b"}},
		{"openai-chat", "http://provider.test/api/v4?version=2", "k", "POST", "/v1/chat/completions?a=b", asked{"POST /api/v4/chat/completions?version=2&a=b", "", "Bearer k", "a,b"}},
		{"openai-chat", "http://provider.test", "", "GET", "/v1/models", asked{"GET /models", "", "", "a,b"}},
	} {
		t.Run(c.kind+c.path, func(t *testing.T) {
			b := w.open(t, options{mode: egress.None, run: func(r *egress.Run) {
				r.Model = &egress.Model{Type: c.kind, BaseURL: c.base, Key: c.key}
			}})
			r, err := http.NewRequest(c.method, "http://model.stint.internal"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Authorization": {"Bearer sandbox"}, "X-Api-Key": {"sandbox"}, "Anthropic-Beta": {"a,b"}}
			if status, body, _ := b.do(r); status != 200 {
				t.Errorf("%d %s", status, body)
			}
			if diff := cmp.Diff(c.want, <-seen); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestModelPassesNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.name("provider.test", site)
	for _, c := range []struct {
		kind, method, path, upgrade string
		status                      int
		says                        string
	}{
		{"anthropic", "HEAD", "/", "", 200, ""},
		{"anthropic", "HEAD", "/api/hello", "", 200, ""},
		{"anthropic", "POST", "/v1/messages/batches", "", 404, `"type":"not_found_error"`},
		{"anthropic", "POST", "/v1/responses", "", 404, `"type":"error"`},
		{"anthropic", "GET", "/v1/messages", "", 405, "takes POST alone"},
		{"anthropic", "GET", "/v1/models/../files", "", 404, ""},
		{"anthropic", "GET", "/v1/models/%2e%2e/files", "", 404, ""},
		{"anthropic", "GET", "/v1%2Fmodels", "", 404, ""},
		{"openai-responses", "GET", "/v1/responses/resp_1", "", 404, `"error":{"code":null`},
		{"openai-responses", "GET", "/v1/responses", "websocket", 426, "WebSockets"},
		{"openai-responses", "POST", "/v1/messages", "", 404, ""},
		{"openai-chat", "DELETE", "/v1/models/mine", "", 404, ""},
		{"openai-chat", "GET", "/", "", 404, ""},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			t.Parallel()
			b := w.open(t, options{mode: egress.None, run: func(r *egress.Run) {
				r.Model = &egress.Model{Type: c.kind, BaseURL: "http://provider.test"}
			}})
			conn := b.dial("model.stint.internal", 80)
			upgrade := ""
			if c.upgrade != "" {
				upgrade = "Connection: Upgrade\r\nUpgrade: " + c.upgrade + "\r\n"
			}
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: model.stint.internal\r\n%s\r\n%s / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", c.method, c.path, upgrade, c.method)
			got := readAll(t, conn)
			if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(got, c.says) {
				t.Errorf("got %s", got)
			}
			if !strings.Contains(got, "HTTP/1.1 403 ") {
				t.Errorf("another host on the same connection: %s", got)
			}
		})
	}
	if got := w.dials(); len(got) > 0 {
		t.Errorf("dialed %v", got)
	}
}

func TestModelStreams(t *testing.T) {
	t.Parallel()
	w := newWorld()
	goOn := make(chan struct{})
	w.host(t, nil, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, start)
		_ = http.NewResponseController(rw).Flush()
		<-goOn
		_, _ = io.WriteString(rw, "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":50}}\n\n")
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	res, err := (&http.Client{Transport: b.transport(), Timeout: within}).Post(messages, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, len(start))
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != start {
		t.Fatalf("%q, %v", first, err)
	}
	b.await("of what goes on", func(e egress.Entry) bool { return e.Open && e.Rule == "provider" && e.Host == "provider.test" })
	close(goOn)
	readAll(t, res.Body)
	c.await(t)
	c.is(t, stint.Tokens{InputTokens: 14, OutputTokens: 50, CacheReadTokens: 4, ModelCalls: 1})
}

func TestModelCountsWhatIsCutOff(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"client", "provider", "silence", "run"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			gone := make(chan struct{})
			w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, start)
				_ = http.NewResponseController(rw).Flush()
				if who == "provider" {
					panic(http.ErrAbortHandler)
				}
				<-r.Context().Done()
				close(gone)
			}, site+":80")
			w.name("provider.test", site)
			b, c := w.offering(t, options{config: func(c *egress.Config) {
				if who == "silence" {
					c.IdleTimeout = 50 * time.Millisecond
				}
			}})
			res, err := (&http.Client{Transport: b.transport(), Timeout: within}).Post(messages, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadFull(res.Body, make([]byte, len(start))); err != nil {
				t.Fatal(err)
			}
			switch who {
			case "client":
				res.Body.Close()
			case "run":
				b.session.Close()
			default:
				if rest, err := io.ReadAll(res.Body); err == nil {
					t.Errorf("the answer ends well after %q", rest)
				}
			}
			c.await(t)
			if who != "provider" {
				<-gone
			}
			b.session.Close()
			c.is(t, stint.Tokens{InputTokens: 14, OutputTokens: 1, CacheReadTokens: 4, ModelCalls: 1})
		})
	}
}

func TestModelFailuresAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "redirect":
			http.Redirect(rw, r, "http://elsewhere.test/", http.StatusTemporaryRedirect)
		case "limit":
			rw.Header().Set("Retry-After", "7")
			http.Error(rw, reply, http.StatusTooManyRequests)
		default:
			panic(http.ErrAbortHandler)
		}
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	if status, body, h := b.post(messages+"?limit", "{}"); status != 429 || body != reply+"\n" || h.Get("Retry-After") != "7" {
		t.Errorf("%d %s", status, body)
	}
	if status, body, h := b.post(messages+"?redirect", "{}"); status != 502 || !strings.Contains(body, "provider.baseUrl") || h.Get("X-Should-Retry") != "false" || h.Get("Location") != "" {
		t.Errorf("%d %s %v", status, body, h)
	}
	if status, body, h := b.post(messages+"?abort", "{}"); status != 502 || !strings.Contains(body, `"type":"api_error"`) || h.Get("X-Should-Retry") != "" {
		t.Errorf("%d %s", status, body)
	}
	c.is(t, stint.Tokens{})
}

func TestModelIsUnderThePolicyForAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, a := range []string{"10.0.0.5:80", "127.0.0.1:11434", site + ":80"} {
		w.host(t, nil, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, reply) }, a)
	}
	w.name("inner.test", "10.0.0.5")
	w.name("cloud.test", "169.254.169.254")
	w.name("nowhere.test", "-")
	w.name("broken.test", "!")
	w.name("closed.test", "198.41.0.4")
	for _, c := range []struct {
		base, allow string
		status      int
		rule, says  string
	}{
		{"http://inner.test", "", 403, "private address", "network.allow"},
		{"http://inner.test", "inner.test", 403, "private address", "network.allow"},
		{"http://inner.test", "10.0.0.0/8", 200, "provider", ""},
		{"http://10.0.0.5", "", 403, "private address", "network.allow"},
		{"http://10.0.0.5", "10.0.0.5:80", 200, "provider", ""},
		{"http://" + site, "", 200, "provider", ""},
		{"http://cloud.test", "169.254.0.0/16", 403, "metadata address", "no agent may reach"},
		{"http://127.0.0.1:11434", "", 403, "loopback address", "network.allow"},
		{"http://localhost:11434", "", 403, "unknown name", "host.stint.internal:11434"},
		{"http://host.stint.internal:11434", "", 403, "not in network.allow", "host.stint.internal:11434"},
		{"http://host.stint.internal:11434", "host.stint.internal:11434", 200, "provider", ""},
		{"http://model.stint.internal", "", 403, "unknown name", "leads nowhere"},
		{"http://198.18.0.1", "", 403, "benchmark address", ""},
		{"http://nowhere.test", "", 502, "provider", "no such host"},
		{"http://broken.test", "", 502, "provider", "the lookup failed"},
		{"http://closed.test", "", 502, "provider", "cannot be reached"},
	} {
		t.Run(c.base+" "+c.allow, func(t *testing.T) {
			t.Parallel()
			var allow []string
			if c.allow != "" {
				allow = []string{c.allow}
			}
			for _, mode := range []egress.Mode{egress.Public, egress.Restricted, egress.None} {
				count := newTally()
				b := w.open(t, options{mode: mode, allow: allow, run: func(r *egress.Run) { r.Model = count.model(stint.ProviderAnthropic, c.base) }})
				status, body, h := b.post(messages, "{}")
				if status != c.status || !strings.Contains(body, c.says) || strings.Contains(body, "127.0.0.1:1") && !strings.Contains(c.base, "127") {
					t.Errorf("in mode %s: %d %s", mode, status, body)
				}
				if (h.Get("X-Should-Retry") == "false") != (status == 403) {
					t.Errorf("%d with %v", status, h)
				}
				e := b.await("of the request", func(e egress.Entry) bool { return e.Method == "POST" && e.Status == c.status })
				if want := map[bool]string{true: egress.Deny, false: egress.Allow}[status == 403]; e.Action != want || e.Rule != c.rule {
					t.Errorf("in mode %s: %+v", mode, e)
				}
			}
		})
	}
}

func TestModelIsCheckedAtEachConnection(t *testing.T) {
	t.Parallel()
	w := newWorld()
	answer := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Connection", "close")
		_, _ = io.WriteString(rw, reply)
	}
	w.host(t, nil, answer, site+":80")
	w.host(t, nil, answer, "10.0.0.5:80")
	w.name("provider.test", site, "10.0.0.5")
	clock := newClock()
	b, c := w.offering(t, options{config: func(c *egress.Config) { c.Now = clock.Now }})
	if status, _, _ := b.post(messages, "{}"); status != 200 {
		t.Fatalf("got %d", status)
	}
	clock.advance(11)
	if status, body, _ := b.post(messages, "{}"); status != 403 || !strings.Contains(body, "private address") {
		t.Errorf("%d %s", status, body)
	}
	if diff := cmp.Diff([]string{site + ":80"}, w.dials()); diff != "" {
		t.Error(diff)
	}
	c.is(t, stint.Tokens{InputTokens: 10, OutputTokens: 5, ModelCalls: 1})
}

func TestModelKeepsItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("X-Api-Key")
		rw.Header().Set("X-Echo", "key "+got)
		_, _ = io.WriteString(rw, `{"model":"m","usage":{"input_tokens":1},"echo":"`+got[:9])
		_ = http.NewResponseController(rw).Flush()
		_, _ = io.WriteString(rw, got[9:]+`"}`)
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	status, body, header := b.post(messages, "{}")
	if status != 200 || strings.Contains(body, key) || strings.Contains(header.Get("X-Echo"), key) || !strings.HasSuffix(body, `"echo":"stint-model-key"}`) {
		t.Errorf("%d %s %v", status, body, header)
	}
	c.is(t, stint.Tokens{InputTokens: 1, ModelCalls: 1})
}

func TestModelCountsCompressedAnswers(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, reply)
	z.Close()
	for encoding, c := range map[string]struct {
		answer string
		want   stint.Tokens
	}{
		"gzip": {zipped.String(), stint.Tokens{InputTokens: 10, OutputTokens: 5, ModelCalls: 1}},
		"br":   {"whatever", stint.Tokens{ModelCalls: 1}},
		"GZIP": {"no gzip", stint.Tokens{ModelCalls: 1}},
	} {
		w := newWorld()
		w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("asked for %s", got)
			}
			rw.Header().Set("Content-Encoding", encoding)
			_, _ = io.WriteString(rw, c.answer)
		}, site+":80")
		w.name("provider.test", site)
		b, count := w.offering(t, options{})
		if status, body, h := b.post(messages, `{"model":"asked"}`, "Accept-Encoding", "gzip, br"); status != 200 || body != c.answer || h.Get("Content-Encoding") != encoding {
			t.Errorf("%d %q %v", status, body, h)
		}
		count.is(t, c.want)
		if c.want.InputTokens == 0 && count.models[0] != "asked" {
			t.Errorf("counted for %v", count.models)
		}
	}
}

func TestModelTakesLargeRequests(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(rw, `{"usage":{"input_tokens":%d}}`, n)
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	send := func(size, length int64) (int, string) {
		r, err := http.NewRequest(http.MethodPost, messages, io.LimitReader(zeros{}, size))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		res, err := b.transport().RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, readAll(t, res.Body)
	}
	for _, length := range []int64{8 << 20, -1} {
		if status, body := send(8<<20, length); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}
	c.is(t, stint.Tokens{InputTokens: 16 << 20, ModelCalls: 2})
	conn := b.dial("model.stint.internal", 80)
	fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: model.stint.internal\r\nContent-Length: %d\r\n\r\n", 64<<20+1)
	if got := readAll(t, conn); !strings.HasPrefix(got, "HTTP/1.1 413 ") || !strings.Contains(got, "request_too_large") {
		t.Errorf("got %s", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestModelBreaksOffWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.host(t, nil, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	r, err := http.NewRequest(http.MethodPost, messages, io.LimitReader(zeros{}, 64<<20+1))
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = -1
	if status, body, _ := b.do(r); status != 413 || !strings.Contains(body, "request_too_large") {
		t.Errorf("%d %s", status, body)
	}
	b.denied("provider")
	c.is(t, stint.Tokens{})
}

func TestModelThroughTheProxy(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.host(t, nil, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, reply) }, site+":80")
	w.name("provider.test", site)
	for _, mode := range []egress.Mode{egress.Public, egress.None} {
		b, c := w.offering(t, options{mode: mode})
		tr := b.transport()
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.stint.internal:3128"})
		client := &http.Client{Transport: tr, Timeout: within}
		res, err := client.Post(messages, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, res.Body); res.StatusCode != 200 || got != reply {
			t.Errorf("%d %s", res.StatusCode, got)
		}
		res.Body.Close()
		conn := b.dial("proxy.stint.internal", 3128)
		ok := "HTTP/1.1 200 Connection Established\r\n\r\n"
		_, _ = io.WriteString(conn, "CONNECT model.stint.internal:80 HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := io.ReadFull(conn, make([]byte, len(ok))); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: model.stint.internal\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		if got := readAll(t, conn); !strings.Contains(got, reply) {
			t.Errorf("within CONNECT: %s", got)
		}
		c.is(t, stint.Tokens{InputTokens: 20, OutputTokens: 10, ModelCalls: 2})
		for _, line := range []string{"CONNECT model.stint.internal:443", "CONNECT 10.0.0.1:80", "GET http://api.stint.internal/mcp", "GET http://10.0.0.1/"} {
			conn := b.dial("proxy.stint.internal", 3128)
			host := strings.TrimSuffix(strings.TrimPrefix(line, "GET http://"), "/")
			host, _, _ = strings.Cut(strings.TrimPrefix(host, "CONNECT "), "/")
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", line, host)
			if got := readAll(t, conn); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
				t.Errorf("%s in mode %s: %s", line, mode, got)
			}
		}
	}
}

func TestModelIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(rw, reply)
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	client := &http.Client{Transport: b.transport(), Timeout: within}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 10 {
				res, err := client.Post(messages, "application/json", strings.NewReader("{}"))
				if err != nil {
					t.Error(err)
					return
				}
				got, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode != 200 || string(got) != reply {
					t.Errorf("%d %s", res.StatusCode, got)
				}
			}
		})
	}
	work.Wait()
	c.is(t, stint.Tokens{InputTokens: 800, OutputTokens: 400, ModelCalls: 80})
	if n := len(w.dials()); n > 16 {
		t.Errorf("dialed %d times: connections are not used again", n)
	}
}

func TestModelEndsWithTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld()
	reached := make(chan struct{})
	w.host(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(reached)
		<-r.Context().Done()
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	failed := make(chan error, 1)
	go func() {
		_, err := (&http.Client{Transport: b.transport(), Timeout: within}).Post(messages, "application/json", strings.NewReader("{}"))
		failed <- err
	}()
	<-reached
	b.session.Close()
	if err := <-failed; err == nil {
		t.Error("the call ends well")
	}
	c.is(t, stint.Tokens{})
}

func TestModelWithoutSense(t *testing.T) {
	t.Parallel()
	g, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []egress.Model{
		{Type: "offline", BaseURL: "http://provider.test"},
		{Type: "anthropic", BaseURL: "ftp://provider.test"},
		{Type: "anthropic", BaseURL: "http://"},
		{Type: "anthropic", BaseURL: "http://provider.test:99999"},
		{Type: "anthropic", BaseURL: "http://[::1"},
	} {
		if s, err := g.Open(egress.Run{Model: &m}); err == nil {
			s.Close()
			t.Errorf("%+v has a session", m)
		}
	}
}

func TestAPIAlias(t *testing.T) {
	t.Parallel()
	type asked struct{ Method, Host, URI, Auth, Cookie, Key, Local, Body string }
	seen := make(chan asked, 1)
	api := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		body, _ := io.ReadAll(r.Body)
		seen <- asked{r.Method, r.Host, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Api-Key"), local.String(), string(body)}
		if r.URL.RawQuery == "cut" {
			_, _ = io.WriteString(rw, "part")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(rw, "answer")
	})
	for _, mode := range []egress.Mode{egress.Public, egress.Restricted, egress.None} {
		b := newWorld().open(t, options{mode: mode, config: func(c *egress.Config) { c.API = api }, run: func(r *egress.Run) { r.APIToken = "the-run" }})
		status, body, _ := b.post("http://api.stint.internal/mcp?a=b", "question", "Authorization", "Bearer other", "Cookie", "c=d", "X-Api-Key", "k")
		if status != 202 || body != "answer" {
			t.Errorf("%d %s", status, body)
		}
		want := asked{"POST", "api.stint.internal", "/mcp?a=b", "Bearer the-run", "", "", "api.stint.internal:80", "question"}
		if diff := cmp.Diff(want, <-seen); diff != "" {
			t.Error(diff)
		}
		e := b.await("of the request", func(e egress.Entry) bool { return e.Rule == "api" && e.Method == "POST" })
		if e.URL != "http://api.stint.internal/mcp?a=b" || e.Status != 202 || e.RequestBytes != 8 || e.ResponseBytes != 6 || e.Action != egress.Allow {
			t.Errorf("%+v", e)
		}
		for _, path := range []string{"/", "/v1/runs", "/mcp/", "/mcp/../v1/runs", "/mcp%2f..%2fv1"} {
			if status, body, _ := b.post("http://api.stint.internal"+path, ""); status != 404 || !strings.Contains(body, "resource_not_found") {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if _, err := b.lookup("model.stint.internal"); err == nil {
			t.Error("the model's name resolves, though there is none")
		}
		_, _, err := b.get("http://api.stint.internal/mcp?cut")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("an answer that is given up ends with %v", err)
		}
		<-seen
	}
}

func TestAPIAliasStreamsBothWays(t *testing.T) {
	t.Parallel()
	api := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		_ = control.EnableFullDuplex()
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				return
			}
			_, _ = rw.Write(b)
			if err := control.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	b := newWorld().open(t, options{mode: egress.None, config: func(c *egress.Config) { c.API = api }, run: func(r *egress.Run) { r.APIToken = "the-run" }})
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.stint.internal/mcp", r)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = w.Write([]byte("a")) }()
	res, err := b.transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got := make([]byte, 1)
	for _, want := range []string{"a", "b", "c"} {
		if want != "a" {
			_, _ = w.Write([]byte(want))
		}
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	w.Close()
	readAll(t, res.Body)
}
