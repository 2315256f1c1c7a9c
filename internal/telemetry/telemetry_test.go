package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/telemetry"
)

func TestRunEnded(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	p := telemetry.NewProduct(r)
	cost, took := 0.25, int64(1500)
	var run stint.Run
	run.Status, run.ExecutionTimeMs = stint.Completed, &took
	p.RunEnded(&run, &stint.Usage{
		Tokens: stint.Tokens{InputTokens: 10, OutputTokens: 5, CacheReadTokens: 4, CacheWriteTokens: 3, ReasoningTokens: 2, ModelCalls: 6}, CostUSD: &cost,
	})
	p.RunEnded(&run, nil)
	reason := stint.ReasonSandboxError
	run.Status, run.StatusReason, run.ExecutionTimeMs = stint.Failed, &reason, nil
	p.RunEnded(&run, nil)
	for name, want := range map[string]string{
		"stint_model_calls_total":            "6",
		"stint_model_cost_usd_total":         "0.25",
		"stint_sandbox_start_failures_total": "1",
		"stint_model_tokens_total":           `kind="input"} 10`,
		"stint_runs_ended_total":             `reason="none",status="completed"} 2`,
		"stint_run_duration_seconds":         `status="completed"} 3`,
	} {
		if text := gathered(t, r, name); !strings.Contains(text, want) {
			t.Errorf("%s does not contain %s:\n%s", name, want, text)
		}
	}
	for _, want := range []string{`kind="output"} 5`, `kind="cache_read"} 4`, `kind="cache_write"} 3`, `kind="reasoning"} 2`} {
		if text := gathered(t, r, "stint_model_tokens_total"); !strings.Contains(text, want) {
			t.Errorf("the tokens do not contain %s:\n%s", want, text)
		}
	}
}

// gathered returns the values of a metric, one line for each series.
func gathered(t *testing.T, g prometheus.Gatherer, name string) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				value = h.GetSampleSum()
			}
			fmt.Fprintf(&lines, "%s{%s} %v\n", name, strings.Join(labels, ","), value)
		}
	}
	return lines.String()
}

var waiting = telemetry.Gauge("waiting", "Waiting.", "kind")

// TestCollectorReadsSeldom checks that a collector does not call its source for every
// scrape, that it limits the time of a call, and that it counts failures.
func TestCollectorReadsSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var err error
		source := func(ctx context.Context) ([]telemetry.Sample, error) {
			calls++
			if errors.Is(err, context.DeadlineExceeded) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []telemetry.Sample{{Gauge: waiting, Value: float64(calls), Labels: []string{"a"}}}, err
		}
		r := prometheus.NewRegistry()
		failures := telemetry.ReadFailures(r)
		r.MustRegister(telemetry.NewCollector([]*prometheus.Desc{waiting}, source, failures, slog.New(slog.DiscardHandler)))
		expect := func(name, want string) {
			t.Helper()
			if got := gathered(t, r, name); got != want {
				t.Errorf("after %d calls: %q, want %q", calls, got, want)
			}
		}
		for range 10 {
			expect("waiting", "waiting{kind=\"a\"} 1\n")
		}
		time.Sleep(6 * time.Second)
		expect("waiting", "waiting{kind=\"a\"} 2\n")
		time.Sleep(6 * time.Second)
		err = context.DeadlineExceeded
		begin := time.Now()
		expect("waiting", "")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the call took %v", took)
		}
		expect("stint_metrics_read_failures_total", "stint_metrics_read_failures_total{} 1\n")
	})
}
