package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The verdicts of a row.
const (
	Met    = "met"
	Short  = "SHORT"
	NoGoal = "no goal"
	Broken = "ERROR"
)

// Report is the result of one run of the benchmark.
type Report struct {
	Head      []string  `json:"head"` // lines about the program, the machine, and the database
	StartedAt time.Time `json:"startedAt"`
	Seconds   float64   `json:"seconds"`
	Rows      []Row     `json:"results"`
}

// Row is one line of the report. Ratio is Measured divided by AnchorMeasured, which
// was measured in the same run. Ratio is 0 if the row does not have an anchor.
type Row struct {
	Scenario       string   `json:"scenario"`
	What           string   `json:"what"`
	Measured       Measure  `json:"measured"`
	Anchor         string   `json:"anchor,omitempty"`
	AnchorMeasured *Measure `json:"anchorMeasured,omitempty"`
	Ratio          float64  `json:"ratio,omitempty"`
	Goals          []Goal   `json:"goals,omitempty"`
	Note           string   `json:"note,omitempty"`
	Error          string   `json:"error,omitempty"`
}

// compare returns a row with an anchor. Its ratio is m.Rate / a.Rate if both have a
// rate, otherwise the ratio of the medians (P50Ms) or, without medians, of the values.
func compare(what string, m Measure, anchor string, a Measure) Row {
	r := Row{What: what, Measured: m, Anchor: anchor, AnchorMeasured: &a}
	switch {
	case m.Rate > 0 && a.Rate > 0:
		r.Ratio = m.Rate / a.Rate
	case a.P50Ms > 0:
		r.Ratio = m.P50Ms / a.P50Ms
	case a.Value > 0:
		r.Ratio = m.Value / a.Value
	}
	return r
}

// Verdict returns Broken if the row has an error, NoGoal if it does not have a goal,
// Short if a goal is missed, and otherwise Met.
func (r *Row) Verdict() string {
	switch {
	case r.Error != "":
		return Broken
	case len(r.Goals) == 0:
		return NoGoal
	case slices.ContainsFunc(r.Goals, func(g Goal) bool { return !g.Met }):
		return Short
	}
	return Met
}

// count returns the number of rows with the verdict.
func (r *Report) count(v string) (n int) {
	for i := range r.Rows {
		if r.Rows[i].Verdict() == v {
			n++
		}
	}
	return n
}

// Measure is a measured value. Fields that do not apply are 0. Number is the number of
// samples of a latency.
type Measure struct {
	P50Ms  float64 `json:"p50Ms,omitempty"`
	P99Ms  float64 `json:"p99Ms,omitempty"`
	Rate   float64 `json:"perSecond,omitempty"`
	Value  float64 `json:"value,omitempty"`
	Unit   string  `json:"unit,omitempty"` // of Value
	Number int     `json:"number,omitempty"`
}

// latency returns the measure of durations.
func latency(took []time.Duration) Measure {
	return Measure{P50Ms: milliseconds(quantile(took, 0.5)), P99Ms: milliseconds(quantile(took, 0.99)), Number: len(took)}
}

// String returns text such as "p50 0.41 ms, p99 1.2 ms".
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

// Goal is a limit and whether the measured value meets it.
type Goal struct {
	Text  string  `json:"goal"` // such as "p99 ≤ 10 ms"
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
}

// atMost returns a goal with a limit that the value must not exceed. A value of 0 was
// not measured and does not meet the goal. name and unit may be empty.
func atMost(name string, value, limit float64, unit string) Goal {
	return Goal{Text: goalText(name, "≤", limit, unit), Limit: limit, Value: value, Met: value > 0 && value <= limit}
}

// atLeast returns a goal with a limit that the value must reach.
func atLeast(name string, value, limit float64, unit string) Goal {
	return Goal{Text: goalText(name, "≥", limit, unit), Limit: limit, Value: value, Met: value >= limit && !math.IsInf(value, 0)}
}

func goalText(name, relation string, limit float64, unit string) string {
	if !strings.HasPrefix(unit, "/") {
		unit = " " + unit
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %v%s", name, relation, limit, unit))
}

// number formats a value with three significant digits, or as a whole number.
func number(v float64) string {
	if math.Abs(v) >= 999.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", v), ".")
}

// Write prints the report as a table with a head and notes.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n", strings.Join(r.Head, "\n"))
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tWHAT\tMEASURED\tANCHOR IN THE SAME RUN\tRATIO\tGOAL\tVERDICT")
	for i := range r.Rows {
		fmt.Fprintln(t, strings.Join(r.Rows[i].cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nNotes\n")
	for _, row := range r.Rows {
		if row.Note != "" {
			fmt.Fprintf(w, "  %s, %s: %s\n", row.Scenario, row.What, row.Note)
		}
	}
	_, err := fmt.Fprintf(w, "\n%d met, %d short, %d without a goal, %d errors.\n", r.count(Met), r.count(Short), r.count(NoGoal), r.count(Broken))
	return err
}

func (r *Row) cells() []string {
	cells := []string{r.Scenario, r.What, "–", "–", "–", "–", r.Verdict()}
	if r.Error != "" {
		cells[6] += ": " + oneLine(r.Error)
		return cells
	}
	cells[2] = r.Measured.String()
	if r.AnchorMeasured != nil {
		cells[3], cells[4] = r.Anchor+": "+r.AnchorMeasured.String(), number(r.Ratio)+" ×"
	}
	var goals []string
	for _, g := range r.Goals {
		if !g.Met && len(r.Goals) > 1 {
			g.Text += " (short)"
		}
		goals = append(goals, g.Text)
	}
	if len(goals) > 0 {
		cells[5] = strings.Join(goals, ", ")
	}
	return cells
}

// oneLine replaces line ends and tabs, which would break the table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
