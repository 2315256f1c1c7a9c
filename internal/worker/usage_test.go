package worker_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/worker"
)

// networkDriver is a fake driver of sandboxes with a network. Its method ask sends a
// request from the sandbox's network to the egress proxy. networkDriver is also the
// listener that accepts the connections of ask.
type networkDriver struct {
	*fake.Driver
	dns net.PacketConn      // receives the DNS queries of the sandbox
	far net.Listener        // accepts the TCP connections of the sandbox
	to  chan netip.AddrPort // destination of each TCP connection
}

func (d *networkDriver) Prepare(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	b, err := d.Driver.Prepare(ctx, s)
	return networkSandbox{b, d}, err
}

type networkSandbox struct {
	sandbox.Sandbox
	d *networkDriver
}

func (b networkSandbox) Network() *sandbox.Network { return &sandbox.Network{TCP: b.d, DNS: b.d.dns} }

func (d *networkDriver) Accept() (net.Conn, netip.AddrPort, error) {
	c, err := d.far.Accept()
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	return c, <-d.to, nil
}

func (d *networkDriver) Close() error { return d.far.Close() }

// ask sends a request to the model, as an agent does, and returns the body of the
// response. If the request fails, ask returns the text of the error.
func (d *networkDriver) ask(path, body string) string {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", d.dns.LocalAddr().String())
	}}
	waiting, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	at, err := resolver.LookupNetIP(waiting, "ip4", stint.ModelAlias+".")
	for err != nil && waiting.Err() == nil { // on an overloaded host, the resolver may time out after some seconds
		at, err = resolver.LookupNetIP(waiting, "ip4", stint.ModelAlias+".")
	}
	if err != nil {
		panic(err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d.to <- netip.AddrPortFrom(at[0].Unmap(), 80)
		return (&net.Dialer{}).DialContext(ctx, "tcp", d.far.Addr().String())
	}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: maxWait}).Post("http://"+stint.ModelAlias+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	return string(answer)
}

type oneAddress struct{}

func (oneAddress) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

// newModelWorld returns a world with agents that execute asks. The function asks calls a
// model through its argument ask. The handler answer responds to these calls.
func newModelWorld(t *testing.T, answer http.HandlerFunc, asks func(ask func(path, body string) string, b *fake.Proc)) *world {
	t.Helper()
	provider := httptest.NewServer(answer)
	t.Cleanup(provider.Close)
	far, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	dns, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { far.Close(); dns.Close() })
	gate, err := egress.New(egress.Config{Resolver: oneAddress{}, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, provider.Listener.Addr().String())
	}})
	check(t, err)
	d := &networkDriver{dns: dns, far: far, to: make(chan netip.AddrPort, 1)}
	d.Driver = fake.New(func(ctx context.Context, b *fake.Proc) sandbox.Exit {
		var work sync.WaitGroup
		work.Go(func() { asks(d.ask, b) })
		work.Wait()
		hang(ctx)
		return sandbox.Exit{Signal: 9, Cause: sandbox.Killed}
	})
	d.Report.Network = true
	p := &scriptedFramework{verdict: framework.Verdict{Completed: true}}
	return newScriptedWorld(t, p, nil, func(c *worker.Config) { c.Driver, c.Gate, c.ExitGrace = d, gate, 10*time.Millisecond })
}

// respond returns a handler that always sends the body.
func respond(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, body)
	}
}

// runWithOneCall executes a run with an agent that calls the model "gpt" once. answer is
// the body of the model's response. provider contains additional members of the provider
// in the definition, beginning with a comma. limits contains the limits in the definition.
func runWithOneCall(t *testing.T, answer, provider, limits string) stint.Run {
	t.Helper()
	w := newModelWorld(t, respond(answer), func(ask func(string, string) string, b *fake.Proc) {
		ask("/v1/chat/completions", `{"model":"gpt","messages":[]}`)
		emit(b.Stdout, framework.Step{Ended: true})
	})
	return w.run(`{"framework":"codex","provider":{"type":"openai-chat","baseUrl":"http://provider.test/v1"`+provider+`},"limits":`+limits+`}`, stint.NewRun{})
}

// spent is a response of the model "gpt" with 1,001 tokens. It contains a longer name of
// the model.
const spent = `{"model":"gpt-2026-08-06","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":101}}`

// TestPrices checks the order in which a price is selected: the price for the model name
// in the response, the price for the name in the request, and the default price.
func TestPrices(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prices string
		cost   float64
	}{
		"name in the response": {`{"gpt-2026-08-06":{"input":1,"output":1},"gpt":{"input":9,"output":9},"*":{"input":9,"output":9}}`, 0.001001},
		"name in the request":  {`{"gpt":{"input":2,"output":2},"*":{"input":9,"output":9}}`, 0.002002},
		"default":              {`{"*":{"input":3,"output":3}}`, 0.003003},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := runWithOneCall(t, spent, `,"prices":`+tt.prices, `{"maxCostUsd":1}`)
			var u stint.Usage
			check(t, json.Unmarshal(run.Usage, &u))
			if run.Status != stint.Completed || u.CostUSD == nil || *u.CostUSD != tt.cost || u.CostSource != stint.CostByPrices || u.Models["gpt-2026-08-06"].InputTokens != 900 {
				t.Errorf("the run ended %s (%v) with %s", run.Status, run.Error, run.Usage)
			}
		})
	}
}

// TestCostLimit checks that the cost limit applies if only the model name in the request
// has a price, and that a run with a cost limit fails if its model has no price.
func TestCostLimit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ answer, provider, says string }{
		"an alias":          {spent, `,"prices":{"gpt":{"input":10,"output":10}}`, "$0.0100 of $0.0100"},
		"another model":     {spent, `,"prices":{"other":{"input":10,"output":10}}`, "Add one for 'gpt-2026-08-06', or for '*', to provider.prices"},
		"no prices":         {spent, ``, "the model 'gpt-2026-08-06', which has no price"},
		"no model name":     {`{"usage":{"prompt_tokens":900,"completion_tokens":101}}`, `,"prices":{"other":{"input":10,"output":10}}`, "Add one for 'gpt', or for '*', to"},
		"no usage":          {`{"model":"m","choices":[{"message":{"content":"` + strings.Repeat("word", 1001) + `"}}]}`, `,"prices":{"gpt":{"input":10,"output":10}}`, "$0.0101 of $0.0100"},
		"no usage or price": {`{"model":"m","choices":[]}`, `,"prices":{"other":{"input":10,"output":10}}`, "the model 'm', which has no price"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := runWithOneCall(t, tt.answer, tt.provider, `{"maxCostUsd":0.01}`)
			if run.Status != stint.Failed || *run.StatusReason != stint.ReasonBudget || !strings.Contains(*run.Error, tt.says) {
				t.Errorf("the run ended %s (%v): %v", run.Status, run.StatusReason, run.Error)
			}
		})
	}
}

// TestUnknownCost checks that a run without a cost limit needs no prices.
func TestUnknownCost(t *testing.T) {
	t.Parallel()
	run := runWithOneCall(t, spent, ``, `{"maxTokens":2000}`)
	var u stint.Usage
	check(t, json.Unmarshal(run.Usage, &u))
	if run.Status != stint.Completed || u.CostUSD != nil || u.Total() != 1001 {
		t.Errorf("the run ended %s with %s", run.Status, run.Usage)
	}
}

// TestUsageByAgent checks that the cost reported by the agent is used if the definition
// has no prices, and that the tokens reported by the agent are used if the model proxy
// counted none.
func TestUsageByAgent(t *testing.T) {
	t.Parallel()
	cost := 0.5
	for name, tt := range map[string]struct {
		answer, body string
		limit        string
		status       stint.Status
		tokens       int64
	}{
		"within the limit":         {spent, `{"model":"gpt"}`, "1", stint.Completed, 1001},
		"beyond the limit":         {spent, `{"model":"gpt"}`, "0.1", stint.Failed, 1001},
		"no usage in the response": {"", "{}", "1", stint.Completed, 850},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newModelWorld(t, respond(tt.answer), func(ask func(string, string) string, b *fake.Proc) {
				ask("/v1/chat/completions", tt.body)
				u := &stint.Usage{CostUSD: &cost}
				u.Count("gpt", stint.Tokens{InputTokens: 700, OutputTokens: 150, ModelCalls: 1})
				emit(b.Stdout, framework.Step{Usage: u})
				emit(b.Stdout, framework.Step{Ended: true})
			})
			run := w.run(`{"framework":"acp","command":["x"],"provider":{"type":"openai-chat","baseUrl":"http://provider.test/v1"},"limits":{"maxCostUsd":`+tt.limit+`}}`, stint.NewRun{})
			var u stint.Usage
			check(t, json.Unmarshal(run.Usage, &u))
			if run.Status != tt.status || u.CostUSD == nil || *u.CostUSD != cost || u.CostSource != stint.CostByAgent || u.Total() != tt.tokens || u.ModelCalls != 1 {
				t.Errorf("the run ended %s (%v) with %s", run.Status, run.Error, run.Usage)
			}
		})
	}
}
