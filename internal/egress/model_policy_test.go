package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestModelInEveryMode(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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
	for _, mode := range []policy.Mode{policy.Public, policy.Restricted, policy.None} {
		t.Run(string(mode), func(t *testing.T) {
			c := newUsageRecorder()
			b := w.open(t, options{
				mode: mode, config: func(c *egress.Config) { c.Roots = roots },
				run: func(r *egress.RunConfig) { r.Model = c.model(stint.ProviderAnthropic, "https://provider.test") },
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
			if c.models[0] != [2]string{"claude-x", "claude-asked"} || c.heard == 0 {
				t.Errorf("counted for %v, heard %d times", c.models, c.heard)
			}
			got := b.await("of the request", func(e log.Entry) bool { return e.Method == "POST" && !e.Open })
			if got.Time.IsZero() || got.Duration <= 0 {
				t.Errorf("entry %+v", got)
			}
			got.Time, got.Duration = time.Time{}, 0
			entry := log.Entry{
				Connection: 1, Action: log.Allow, Rule: "provider", Protocol: "http/1.1", Method: "POST", URL: "https://provider.test/v1/messages?beta=true",
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
			if _, err := b.lookup("provider.test"); (err == nil) != (mode == policy.Public) {
				t.Errorf("the provider's name in the sandbox: %v", err)
			}
		})
	}
}

func TestModelAliasNeedsModel(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.Mode{policy.Public, policy.Restricted, policy.None} {
		b := newTestInternet().open(t, options{mode: mode, run: func(r *egress.RunConfig) { r.APIToken = "token" }}) // Config.API is not set
		for _, name := range []string{"model.stint.internal", "api.stint.internal"} {
			if a, err := b.lookup(name); err == nil {
				t.Errorf("%s in mode %s is %s", name, mode, a)
			}
		}
	}
}

func TestModelRefusesOtherPaths(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.name("provider.test", site)
	t.Cleanup(func() { // runs after all subtests
		if got := w.dials(); len(got) > 0 {
			t.Errorf("dialed %v", got)
		}
	})
	for _, c := range []struct {
		kind, method, path, upgrade string
		status                      int
		message                     string
	}{
		{"anthropic", "HEAD", "/", "", 200, ""},
		{"anthropic", "HEAD", "/api/hello", "", 200, ""},
		{"anthropic", "POST", "/v1/messages/batches", "", 404, `"type":"not_found_error"`},
		{"anthropic", "POST", "/v1/responses", "", 404, `"type":"error"`},
		{"anthropic", "GET", "/v1/messages", "", 405, "supports POST only"},
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
			b := w.open(t, options{mode: policy.None, run: func(r *egress.RunConfig) {
				r.Model = &egress.Model{Type: c.kind, BaseURL: "http://provider.test"}
			}})
			conn := b.dial("model.stint.internal", 80)
			upgrade := ""
			if c.upgrade != "" {
				upgrade = "Connection: Upgrade\r\nUpgrade: " + c.upgrade + "\r\n"
			}
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: model.stint.internal\r\n%s\r\n%s / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", c.method, c.path, upgrade, c.method)
			got := readAll(t, conn)
			if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(got, c.message) {
				t.Errorf("got %s", got)
			}
			if !strings.Contains(got, "HTTP/1.1 403 ") {
				t.Errorf("another host on the same connection: %s", got)
			}
		})
	}
}

func TestModelAddressesFollowPolicy(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	for _, a := range []string{"10.0.0.5:80", "127.0.0.1:11434", site + ":80"} {
		w.host(t, nil, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, reply) }, a)
	}
	w.name("inner.test", "10.0.0.5")
	w.name("cloud.test", "169.254.169.254")
	w.name("nowhere.test", "-")
	w.name("broken.test", "!")
	w.name("closed.test", "198.41.0.4")
	for _, c := range []struct {
		base, allow   string
		status        int
		rule, message string
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
		{"http://model.stint.internal", "", 403, "unknown name", "does not exist"},
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
			for _, mode := range []policy.Mode{policy.Public, policy.Restricted, policy.None} {
				count := newUsageRecorder()
				b := w.open(t, options{mode: mode, allow: allow, run: func(r *egress.RunConfig) { r.Model = count.model(stint.ProviderAnthropic, c.base) }})
				status, body, h := b.post(messages, "{}")
				if status != c.status || !strings.Contains(body, c.message) || strings.Contains(body, "127.0.0.1:1") && !strings.Contains(c.base, "127") {
					t.Errorf("in mode %s: %d %s", mode, status, body)
				}
				if (h.Get("X-Should-Retry") == "false") != (status == 403) {
					t.Errorf("%d with %v", status, h)
				}
				e := b.await("of the request", func(e log.Entry) bool { return e.Method == "POST" && e.Status == c.status })
				if want := map[bool]string{true: log.Deny, false: log.Allow}[status == 403]; e.Action != want || e.Rule != c.rule {
					t.Errorf("in mode %s: %+v", mode, e)
				}
			}
		})
	}
}

func TestModelAddressIsCheckedPerConnection(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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

func TestModelThroughExplicitProxy(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.host(t, nil, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, reply) }, site+":80")
	w.name("provider.test", site)
	for _, mode := range []policy.Mode{policy.Public, policy.None} {
		b, c := w.offering(t, options{mode: mode})
		tr := b.transport()
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.stint.internal:3128"})
		client := &http.Client{Transport: tr, Timeout: waitLimit}
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

func TestModelConfigIsChecked(t *testing.T) {
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
		if s, err := g.Open(egress.RunConfig{Model: &m}); err == nil {
			s.Close()
			t.Errorf("%+v has a session", m)
		}
	}
}
