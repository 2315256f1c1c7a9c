package egress_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
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

// host starts an HTTP server that is reachable at addresses of the test internet. If cert is
// not nil, the server uses TLS.
func (w *testInternet) host(t testing.TB, cert *tls.Certificate, h http.HandlerFunc, addrs ...string) {
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

// usageRecorder records the usage that a run's model reports.
type usageRecorder struct {
	mu     sync.Mutex
	models [][2]string // for each call, the model named in the response and in the request
	total  stint.Tokens
	heard  int
	news   chan struct{}
}

func newUsageRecorder() *usageRecorder { return &usageRecorder{news: make(chan struct{}, 1000)} }

// model returns a model of the API kind at the URL base that reports its usage to c.
func (c *usageRecorder) model(kind, base string) *egress.Model {
	return &egress.Model{
		Type: kind, BaseURL: base, Key: key,
		Count: func(answered, asked string, t stint.Tokens) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.models = append(c.models, [2]string{answered, asked})
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
func (c *usageRecorder) await(t testing.TB) {
	t.Helper()
	select {
	case <-c.news:
	case <-time.After(waitLimit):
		t.Fatal("no call was counted")
	}
}

func (c *usageRecorder) is(t testing.TB, want stint.Tokens) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.total); diff != "" {
		t.Errorf("counted %v\n%s", c.models, diff)
	}
}

// offering opens an uplink with a model of the Anthropic API at provider.test.
func (w *testInternet) offering(t testing.TB, o options) (*testSandbox, *usageRecorder) {
	t.Helper()
	c := newUsageRecorder()
	before := o.run
	o.run = func(r *egress.RunConfig) {
		r.Model = c.model(stint.ProviderAnthropic, "http://provider.test")
		if before != nil {
			before(r)
		}
	}
	return w.open(t, o), c
}

// post sends a POST request from the sandbox and returns the status, body, and headers of
// the response. The elements of headers alternate between names and values.
func (b *testSandbox) post(to, body string, headers ...string) (int, string, http.Header) {
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

func (b *testSandbox) do(r *http.Request) (int, string, http.Header) {
	b.t.Helper()
	c := &http.Client{Transport: b.transport(), Timeout: waitLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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
