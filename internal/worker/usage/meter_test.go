package usage_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/worker/usage"
)

func tokens(in, out int64) stint.Tokens {
	return stint.Tokens{InputTokens: in, OutputTokens: out, ModelCalls: 1}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	limits := stint.Limits{MaxTurns: 10, MaxTokens: 1000}
	for name, tt := range map[string]struct {
		use            func(m *usage.Meter)
		warning, fault string
	}{
		"nothing used":      {func(*usage.Meter) {}, "", ""},
		"below the warning": {func(m *usage.Meter) { m.AddCall("a", "a", tokens(700, 99)) }, "", ""},
		"near the limit":    {func(m *usage.Meter) { m.AddCall("a", "a", tokens(700, 100)) }, "800 of 1000 tokens (limits.maxTokens)", ""},
		"at the limit":      {func(m *usage.Meter) { m.SetAgent(nil, 10) }, "10 of 10 turns (limits.maxTurns)", ""},
		"turns exceeded":    {func(m *usage.Meter) { m.SetAgent(nil, 11) }, "", "11 of 10 turns"},
		"calls as turns": {func(m *usage.Meter) {
			for range 11 {
				m.AddCall("a", "a", tokens(1, 1))
			}
		}, "", "11 of 10 turns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := usage.NewMeter(limits, nil, false)
			tt.use(m)
			warnings, err := m.Check()
			warning := strings.Join(warnings, "\n")
			if !strings.Contains(warning, tt.warning) || (warning == "") != (tt.warning == "") {
				t.Errorf("warning %q, want %q", warning, tt.warning)
			}
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("error %v, want one with %q", err, tt.fault)
			}
			if again, _ := m.Check(); len(again) > 0 {
				t.Errorf("warned again: %q", again)
			}
		})
	}
}

// TestProxyCountsArePreferred checks that the token counts of the agent are used only if
// the model proxy has counted no tokens.
func TestProxyCountsArePreferred(t *testing.T) {
	t.Parallel()
	m := usage.NewMeter(stint.Limits{}, nil, true)
	if got := m.JSON(); got != nil {
		t.Errorf("without a call: %s", got)
	}
	var agent stint.Usage
	agent.Count("a", tokens(5, 5))
	m.SetAgent(&agent, 1)
	total := func() int64 {
		var u stint.Usage
		if err := json.Unmarshal(m.JSON(), &u); err != nil {
			t.Fatal(err)
		}
		return u.Total()
	}
	if got := total(); got != 10 {
		t.Errorf("by the agent: %d tokens, want 10", got)
	}
	m.AddCall("", "a", tokens(7, 7))
	if got := total(); got != 14 {
		t.Errorf("by the proxy: %d tokens, want 14", got)
	}
	select {
	case <-m.Changed():
	default:
		t.Error("no change was reported")
	}
}

func TestWaitIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := usage.NewMeter(stint.Limits{}, nil, false)
		begin := time.Now()
		m.Heard(begin)
		time.AfterFunc(40*time.Second, func() { m.Heard(time.Now()) })
		if !m.WaitIdle(t.Context(), time.Minute, time.Now) || time.Since(begin) != 100*time.Second {
			t.Errorf("it ended after %s", time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if m.WaitIdle(ctx, 200*time.Second, time.Now) {
			t.Error("it does not end with its context")
		}
	})
}

func TestEachLimitIsWarnedAbout(t *testing.T) {
	t.Parallel()
	m := usage.NewMeter(stint.Limits{MaxTurns: 10, MaxTokens: 100}, nil, false)
	m.SetAgent(nil, 9)
	m.AddCall("a", "a", tokens(45, 45))
	all := []string{"The run has used 9 of 10 turns (limits.maxTurns).", "The run has used 90 of 100 tokens (limits.maxTokens)."}
	for _, want := range [][]string{all, nil} {
		if got, err := m.Check(); err != nil || !slices.Equal(got, want) {
			t.Errorf("warnings %q, %v; want %q", got, err, want)
		}
	}
}

// TestCostHasNoFloatNoise checks that the sum of costs has no digits that floating-point
// addition adds.
func TestCostHasNoFloatNoise(t *testing.T) {
	t.Parallel()
	m := usage.NewMeter(stint.Limits{}, &stint.Provider{Prices: map[string]stint.Price{"a": {Input: 1, Output: 2}}}, false)
	for range 3 {
		m.AddCall("a", "a", tokens(100_000, 50_000))
	}
	m.AddCall("a", "a", tokens(0, 1))
	if got := string(m.JSON()); !strings.Contains(got, `"costUsd":0.600002,`) {
		t.Errorf("usage %s", got)
	}
}
