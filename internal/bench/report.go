package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Verdict says how a result stands to its goals.
type Verdict string

// The verdicts of a row.
const (
	Met    Verdict = "met"
	Short  Verdict = "SHORT"
	NoGoal Verdict = "no goal"
	Broken Verdict = "ERROR"
)

// Report is the outcome of one run of the benchmark.
type Report struct {
	Machine   Machine   `json:"machine"`
	Quick     bool      `json:"quick"`
	StartedAt time.Time `json:"startedAt"`
	Seconds   float64   `json:"seconds"`
	LoadEnd   string    `json:"loadAverageAtEnd"`
	Rows      []Row     `json:"results"`
}

// Row is one line of the report.
type Row struct {
	Scenario string  `json:"scenario"` // as --only takes it
	What     string  `json:"what"`
	Measured Measure `json:"measured"`
	// Anchor names what the measure is compared with, AnchorMeasured is what
	// it gave in the same run and Ratio is the measure in terms of it; empty
	// and 0 without one.
	Anchor         string   `json:"anchor,omitempty"`
	AnchorMeasured *Measure `json:"anchorMeasured,omitempty"`
	Ratio          float64  `json:"ratio,omitempty"`
	Goals          []Goal   `json:"goals,omitempty"`
	Note           string   `json:"note,omitempty"`
	Error          string   `json:"error,omitempty"`
}

// Verdict folds the goals: one that falls short makes the row fall short.
func (r *Row) Verdict() Verdict {
	if r.Error != "" {
		return Broken
	}
	if len(r.Goals) == 0 {
		return NoGoal
	}
	for _, g := range r.Goals {
		if !g.Met {
			return Short
		}
	}
	return Met
}

// Failed reports whether a scenario could not be measured.
func (r *Report) Failed() bool {
	for i := range r.Rows {
		if r.Rows[i].Verdict() == Broken {
			return true
		}
	}
	return false
}

// Measure is what was measured; members that do not apply are 0.
type Measure struct {
	P50Ms  float64 `json:"p50Ms,omitempty"`
	P99Ms  float64 `json:"p99Ms,omitempty"`
	Rate   float64 `json:"perSecond,omitempty"`
	Value  float64 `json:"value,omitempty"`
	Unit   string  `json:"unit,omitempty"` // of Value
	Number int     `json:"number,omitempty"`
}

// latency is the measure of a sample.
func latency(s Sample) Measure {
	return Measure{P50Ms: milliseconds(s.Median()), P99Ms: milliseconds(s.Quantile(0.99)), Number: len(s)}
}

// String writes the measure for people, such as "p50 0.41 ms, p99 1.2 ms".
func (m Measure) String() string {
	var parts []string
	if m.P50Ms > 0 {
		parts = append(parts, "p50 "+number(m.P50Ms)+" ms")
	}
	if m.P99Ms > 0 {
		parts = append(parts, "p99 "+number(m.P99Ms)+" ms")
	}
	if m.Rate > 0 {
		parts = append(parts, number(m.Rate)+"/s")
	}
	if m.Unit != "" {
		parts = append(parts, number(m.Value)+" "+m.Unit)
	}
	return strings.Join(parts, ", ")
}

// Goal is a bound and how the measured value stands to it.
type Goal struct {
	Text  string  `json:"goal"` // such as "p99 ≤ 10 ms"
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
}

// atMost judges a value that must not exceed the limit. What and unit may be
// empty. A value of 0 was not measured and does not meet.
func atMost(what string, value, limit float64, unit string) Goal {
	return Goal{Text: goalText(what, "≤", limit, unit), Limit: limit, Value: value, Met: value > 0 && value <= limit}
}

// atLeast judges a value that must reach the limit.
func atLeast(what string, value, limit float64, unit string) Goal {
	return Goal{Text: goalText(what, "≥", limit, unit), Limit: limit, Value: value, Met: value >= limit && !math.IsInf(value, 0)}
}

func goalText(what, relation string, limit float64, unit string) string {
	if !strings.HasPrefix(unit, "/") {
		unit = " " + unit
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s%s", what, relation, limitText(limit), unit))
}

func limitText(v float64) string {
	if v >= 1000 {
		return number(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// number writes about three significant digits, thousands grouped.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return grouped(int64(math.Round(v)))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(digits) - 3; i > first; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
