package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write prints the report for people: where it was measured, then a table with
// a line for each result, then what the lines cannot hold.
func (r *Report) Write(w io.Writer) error {
	if err := r.writeHead(w); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tWHAT\tMEASURED\tANCHOR IN THE SAME RUN\tRATIO\tGOAL\tVERDICT")
	for i := range r.Rows {
		fmt.Fprintln(t, strings.Join(r.Rows[i].cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeFoot(w)
}

func (r *Report) writeHead(w io.Writer) error {
	m := &r.Machine
	kind := "full"
	if r.Quick {
		kind = "quick (smaller amounts: not to be quoted)"
	}
	_, err := fmt.Fprintf(w, `Machine:   %d × %s, %s memory
System:    %s, %s
Data:      %s on %s (%s)
Database:  %s
Load:      %s at the beginning, %s at the end; %.0f s
Amounts:   %s, begun %s

`, m.CPUs, m.CPU, m.Memory, m.Kernel, m.Go, m.FileSystem, m.Device, m.Folder, m.Database,
		m.Load, r.LoadEnd, r.Seconds, kind, r.StartedAt.UTC().Format("2006-01-02 15:04:05Z"))
	return err
}

func (r *Row) cells() []string {
	if r.Error != "" {
		return []string{r.Scenario, r.What, "–", "–", "–", "–", string(Broken) + ": " + oneLine(r.Error)}
	}
	anchor, ratio, goals := "–", "–", make([]string, len(r.Goals))
	if r.AnchorMeasured != nil {
		anchor = r.Anchor + ": " + r.AnchorMeasured.String()
		ratio = number(r.Ratio) + " ×"
	}
	for i, g := range r.Goals {
		goals[i] = g.Text
		if !g.Met && len(r.Goals) > 1 {
			goals[i] += " (short)"
		}
	}
	return []string{r.Scenario, r.What, r.Measured.String(), anchor, ratio, dash(strings.Join(goals, ", ")), string(r.Verdict())}
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// oneLine keeps a message from breaking the table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// writeFoot names what fell short and what is to be known beside the numbers.
func (r *Report) writeFoot(w io.Writer) error {
	var b strings.Builder
	counts := map[Verdict]int{}
	for i := range r.Rows {
		row := &r.Rows[i]
		counts[row.Verdict()]++
		if row.Note != "" {
			fmt.Fprintf(&b, "  %s, %s: %s\n", row.Scenario, row.What, row.Note)
		}
	}
	fmt.Fprintf(&b, "\n%d met, %d short, %d without a goal, %d errors.\n", counts[Met], counts[Short], counts[NoGoal], counts[Broken])
	_, err := fmt.Fprintf(w, "\nNotes\n%s", b.String())
	return err
}
