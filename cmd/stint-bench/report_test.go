package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"no durations", nil, 0.5, 0},
		{"one duration", []time.Duration{7}, 0.99, 7},
		{"minimum", hundred, 0, 1},
		{"median", hundred, 0.5, 50},
		{"p99", hundred, 0.99, 99},
		{"maximum", hundred, 1, 100},
		{"median of two is the smaller", []time.Duration{9, 3}, 0.5, 3},
		{"p99 of three is the maximum", []time.Duration{5, 1, 3}, 0.99, 5},
	} {
		if got := quantile(c.of, c.q); got != c.want {
			t.Errorf("%s: quantile(%v) = %d, want %d", c.name, c.q, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("quantile sorted its argument")
	}
}

func TestMiddle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		measured, anchor []float64
		want             int // index of the chosen round
	}{
		{[]float64{1}, []float64{2}, 0},
		// The ratios are 4, 1, and 2. The last round has the median ratio.
		{[]float64{4, 9, 6}, []float64{1, 9, 3}, 2},
		{[]float64{3, 1}, []float64{1, 1}, 1}, // the ratios are 3 and 1; the smaller of two is chosen
	} {
		rate, anchor := middle(c.measured, c.anchor)
		if rate != c.measured[c.want] || anchor != c.anchor[c.want] {
			t.Errorf("middle of %v and %v is %v and %v, want round %d", c.measured, c.anchor, rate, anchor, c.want)
		}
	}
}

func TestGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got  Goal
		text string
		met  bool
	}{
		{atMost("p99", 10, 10, "ms"), "p99 ≤ 10 ms", true},
		{atMost("p99", 10.01, 10, "ms"), "p99 ≤ 10 ms", false},
		{atMost("", 0, 1.5, "×"), "≤ 1.5 ×", false}, // 0 means that nothing was measured
		{atLeast("", 1.8, 1.8, "×"), "≥ 1.8 ×", true},
		{atLeast("", 1.79, 1.8, "×"), "≥ 1.8 ×", false},
		{atLeast("rate", 2000, 1960, "/s"), "rate ≥ 1960/s", true},
	} {
		if c.got.Text != c.text || c.got.Met != c.met {
			t.Errorf("goal %q met %t, want %q met %t", c.got.Text, c.got.Met, c.text, c.met)
		}
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]Measure{
		"p50 2.00 ms, p99 3.00 ms":              latency([]time.Duration{1e6, 2e6, 3e6}),
		"p50 0.0410 ms, p99 12.3 ms, 1234568/s": {P50Ms: 0.041, P99Ms: 12.34, Rate: 1234567.8},
		"27.5 KiB":                              {Value: 27.49, Unit: "KiB"},
		"0.00 KiB":                              {Unit: "KiB"},
		"-1500 KiB":                             {Value: -1500, Unit: "KiB"},
		"-123 KiB":                              {Value: -123, Unit: "KiB"},
		"999/s":                                 {Rate: 999.4},
	} {
		if got := m.String(); got != want {
			t.Errorf("%+v is %q, want %q", m, got, want)
		}
	}
}

func report() *Report {
	return &Report{
		Head: []string{
			"Program:   (devel) (/bin/stint)",
			"Machine:   2 × EPYC, 24 GiB memory",
			"Amounts:   full, started 2026-01-02 03:04:05Z",
		},
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 61.4,
		Rows: []Row{
			{
				Scenario: "create", What: "POST", Measured: Measure{P50Ms: 1, P99Ms: 2, Rate: 2000},
				Anchor: "one write", AnchorMeasured: &Measure{P50Ms: 0.5}, Ratio: 2,
				Goals: []Goal{atMost("p99", 2, 10, "ms"), atLeast("rate", 1900, 1960, "/s")},
			},
			{Scenario: "stream", What: "memory", Measured: Measure{Value: 27, Unit: "KiB"}, Goals: []Goal{atMost("", 27, 28, "KiB")}, Note: "per stream."},
			{Scenario: "get", What: "GET", Measured: Measure{Rate: 5}},
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
	var got []string
	for i := range r.Rows {
		got = append(got, r.Rows[i].Verdict())
	}
	if diff := cmp.Diff([]string{Short, Met, NoGoal, Broken}, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got := r.count(Broken); got != 1 {
		t.Errorf("%d rows are broken, want 1", got)
	}
	r.Rows = r.Rows[:3]
	if got := r.count(Broken); got != 0 {
		t.Errorf("%d rows are broken, want 0", got)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &back); diff != "" {
		t.Errorf("after JSON (-want +got):\n%s", diff)
	}
}
