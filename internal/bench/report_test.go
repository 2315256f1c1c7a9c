package bench_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/bench"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestQuantile(t *testing.T) {
	t.Parallel()
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i) // 100 … 1
	}
	for _, c := range []struct {
		name string
		of   []time.Duration
		q    float64
		want time.Duration
	}{
		{"nothing", nil, 0.5, 0},
		{"one", []time.Duration{7}, 0.99, 7},
		{"least", hundred, 0, 1},
		{"median", hundred, 0.5, 50},
		{"p99", hundred, 0.99, 99},
		{"most", hundred, 1, 100},
		{"median of two is one of them", []time.Duration{9, 3}, 0.5, 3},
		{"p99 of few is the most", []time.Duration{5, 1, 3}, 0.99, 5},
	} {
		if got := bench.SampleOf(c.of).Quantile(c.q); got != c.want {
			t.Errorf("%s: Quantile(%v) = %d, want %d", c.name, c.q, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("SampleOf sorted its argument")
	}
}

func TestMiddle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		turns []bench.Turn
		want  bench.Turn
	}{
		{[]bench.Turn{bench.TurnOf(1, 2)}, bench.TurnOf(1, 2)},
		// Ratios 4, 1 and 2: neither the best rate nor the best anchor decides.
		{[]bench.Turn{bench.TurnOf(4, 1), bench.TurnOf(9, 9), bench.TurnOf(6, 3)}, bench.TurnOf(6, 3)},
		{[]bench.Turn{bench.TurnOf(3, 1), bench.TurnOf(1, 1)}, bench.TurnOf(1, 1)}, // of two, the worse
		{[]bench.Turn{bench.TurnOf(5, 0), bench.TurnOf(3, 1), bench.TurnOf(2, 1)}, bench.TurnOf(2, 1)},
	} {
		if got := bench.Middle(c.turns); got != c.want {
			t.Errorf("middle of %v is %v, want %v", c.turns, got, c.want)
		}
	}
}

func TestGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got  bench.Goal
		text string
		met  bool
	}{
		{bench.AtMost("p99", 10, 10, "ms"), "p99 ≤ 10 ms", true},
		{bench.AtMost("p99", 10.01, 10, "ms"), "p99 ≤ 10 ms", false},
		{bench.AtMost("", 0, 1.5, "×"), "≤ 1.5 ×", false}, // nothing was measured
		{bench.AtLeast("", 1.8, 1.8, "×"), "≥ 1.8 ×", true},
		{bench.AtLeast("", 1.79, 1.8, "×"), "≥ 1.8 ×", false},
		{bench.AtLeast("rate", 2000, 1960, "/s"), "rate ≥ 1,960/s", true},
	} {
		if c.got.Text != c.text || c.got.Met != c.met {
			t.Errorf("goal %q met %t, want %q met %t", c.got.Text, c.got.Met, c.text, c.met)
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]bench.Measure{
		"p50 2.00 ms, p99 3.00 ms":               bench.Latency(bench.SampleOf([]time.Duration{1e6, 2e6, 3e6})),
		"p50 0.041 ms, p99 12.3 ms, 1,234,568/s": {P50Ms: 0.041, P99Ms: 12.34, Rate: 1234567.8},
		"27.5 KiB":                               {Value: 27.49, Unit: "KiB"},
		"0.000 KiB":                              {Unit: "KiB"},
		"-1,500 KiB":                             {Value: -1500, Unit: "KiB"},
		"-123 KiB":                               {Value: -123, Unit: "KiB"},
		"999/s":                                  {Rate: 999.4},
	} {
		if got := m.String(); got != want {
			t.Errorf("%+v is %q, want %q", m, got, want)
		}
	}
}

func report() *bench.Report {
	return &bench.Report{
		Machine: bench.Machine{
			CPUs: 2, CPU: "EPYC", Memory: "24 GiB", Kernel: "Linux 6.1", Go: "go1.26 linux/amd64",
			Folder: "/tmp/x", FileSystem: "ext4", Device: "/dev/vda", Database: "SQLite", Load: "0.1 0.2 0.3",
		},
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 61.4, LoadEnd: "1.0 0.2 0.3",
		Rows: []bench.Row{
			{
				Scenario: "create", What: "POST", Measured: bench.Measure{P50Ms: 1, P99Ms: 2, Rate: 2000},
				Anchor: "one write", AnchorMeasured: &bench.Measure{P50Ms: 0.5}, Ratio: 2,
				Goals: []bench.Goal{bench.AtMost("p99", 2, 10, "ms"), bench.AtLeast("rate", 1900, 1960, "/s")},
			},
			{Scenario: "stream", What: "memory", Measured: bench.Measure{Value: 27, Unit: "KiB"}, Goals: []bench.Goal{bench.AtMost("", 27, 28, "KiB")}, Note: "per stream."},
			{Scenario: "get", What: "GET", Measured: bench.Measure{Rate: 5}},
			{Scenario: "list", What: "pages", Error: "no\tsuch\ntable"},
		},
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report().Write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "table.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := report()
	var got []bench.Verdict
	for i := range r.Rows {
		got = append(got, r.Rows[i].Verdict())
	}
	if diff := cmp.Diff([]bench.Verdict{bench.Short, bench.Met, bench.NoGoal, bench.Broken}, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if !r.Failed() {
		t.Error("a report with an error did not fail")
	}
	r.Rows = r.Rows[:3]
	if r.Failed() {
		t.Error("falling short is no failure")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back bench.Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &back); diff != "" {
		t.Errorf("after JSON (-want +got):\n%s", diff)
	}
}
