package egress_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestModelKeysAndPaths(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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
			b := w.open(t, options{mode: policy.None, run: func(r *egress.RunConfig) {
				r.Model = &egress.Model{Type: c.kind, BaseURL: c.base, Key: c.key, KeyName: "MODEL_KEY"}
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
			var inserted []string
			if c.key != "" {
				inserted = []string{"MODEL_KEY"}
			}
			b.await("of the call", func(e log.Entry) bool {
				return e.Rule == "provider" && e.Status == 200 && slices.Equal(e.Secrets, inserted)
			})
		})
	}
}

func TestModelStreams(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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
	res, err := (&http.Client{Transport: b.transport(), Timeout: waitLimit}).Post(messages, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, len(start))
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != start {
		t.Fatalf("%q, %v", first, err)
	}
	b.await("of what goes on", func(e log.Entry) bool { return e.Open && e.Rule == "provider" && e.Host == "provider.test" })
	close(goOn)
	readAll(t, res.Body)
	c.await(t)
	c.is(t, stint.Tokens{InputTokens: 14, OutputTokens: 50, CacheReadTokens: 4, ModelCalls: 1})
}

func TestModelCountsInterruptedResponses(t *testing.T) {
	t.Parallel()
	for _, cause := range []string{"client", "provider", "silence", "run"} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			w := newTestInternet()
			gone := make(chan struct{})
			w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, start)
				_ = http.NewResponseController(rw).Flush()
				if cause == "provider" {
					panic(http.ErrAbortHandler)
				}
				<-r.Context().Done()
				close(gone)
			}, site+":80")
			w.name("provider.test", site)
			b, c := w.offering(t, options{config: func(c *egress.Config) {
				if cause == "silence" {
					c.IdleTimeout = 50 * time.Millisecond
				}
			}})
			res, err := (&http.Client{Transport: b.transport(), Timeout: waitLimit}).Post(messages, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadFull(res.Body, make([]byte, len(start))); err != nil {
				t.Fatal(err)
			}
			switch cause {
			case "client":
				res.Body.Close()
			case "run":
				b.uplink.Close()
			default:
				if rest, err := io.ReadAll(res.Body); err == nil {
					t.Errorf("the response ends without an error after %q", rest)
				}
			}
			c.await(t)
			if cause != "provider" {
				<-gone
			}
			b.uplink.Close()
			c.is(t, stint.Tokens{InputTokens: 14, OutputTokens: 1, CacheReadTokens: 4, ModelCalls: 1})
		})
	}
}

func TestModelFailuresAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.RawQuery {
		case "redirect":
			http.Redirect(rw, r, "http://elsewhere.test/", http.StatusTemporaryRedirect)
		case "key":
			http.Error(rw, reply, http.StatusUnauthorized)
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
	if status, _, h := b.post(messages+"?key", "{}"); status != 401 || h.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %v", status, h)
	}
	if status, body, h := b.post(messages+"?redirect", "{}"); status != 502 || !strings.Contains(body, "provider.baseUrl") || h.Get("X-Should-Retry") != "false" || h.Get("Location") != "" {
		t.Errorf("%d %s %v", status, body, h)
	}
	if status, body, h := b.post(messages+"?abort", "{}"); status != 502 || !strings.Contains(body, `"type":"api_error"`) || h.Get("X-Should-Retry") != "" {
		t.Errorf("%d %s", status, body)
	}
	c.is(t, stint.Tokens{})
}

func TestModelKeepsItsKey(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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

func TestModelKeyWithALineEnd(t *testing.T) {
	t.Parallel()
	b, c := newTestInternet().offering(t, options{run: func(r *egress.RunConfig) { r.Model.Key = key + "\n" }})
	if status, body, _ := b.post(messages, "{}"); status != 403 || !strings.Contains(body, "line end") || strings.Contains(body, key) {
		t.Errorf("%d %s", status, body)
	}
	b.denied("secret value")
	c.is(t, stint.Tokens{})
}

func TestModelCountsCompressedResponses(t *testing.T) {
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
		"br":   {"whatever", stint.Tokens{InputTokens: 4, OutputTokens: 2, ModelCalls: 1}},
		"GZIP": {"no gzip", stint.Tokens{InputTokens: 4, ModelCalls: 1}},
	} {
		w := newTestInternet()
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
		if encoding != "gzip" && count.models[0] != [2]string{"", "asked"} {
			t.Errorf("counted for %v", count.models)
		}
	}
}

func TestModelAcceptsLargeRequests(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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

func TestModelRefusesTooLargeRequests(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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

func TestModelForwardsAtOnce(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
	w.host(t, nil, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(rw, reply)
	}, site+":80")
	w.name("provider.test", site)
	b, c := w.offering(t, options{})
	client := &http.Client{Transport: b.transport(), Timeout: waitLimit}
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
	if n := len(w.dials()); n > 40 { // some connections are opened before others become idle
		t.Errorf("dialed %d times: connections are not reused", n)
	}
}

func TestModelEndsWithTheRun(t *testing.T) {
	t.Parallel()
	w := newTestInternet()
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
		_, err := (&http.Client{Transport: b.transport(), Timeout: waitLimit}).Post(messages, "application/json", strings.NewReader("{}"))
		failed <- err
	}()
	<-reached
	b.uplink.Close()
	if err := <-failed; err == nil {
		t.Error("the call ends without an error")
	}
	c.is(t, stint.Tokens{})
}
