package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// topColumns are the columns of the table of active runs.
const topColumns = "RUN AGENT STATUS TIME CPU MEMORY TOKENS COST PROMPT-OR-REASON"

// On a terminal narrower than wideTerminal, the table has the first shortID characters
// of an ID, which other commands accept.
const (
	wideTerminal = 120
	shortID      = 20
)

// activityRow returns the cells of a run. id is its ID in the form to be shown.
func activityRow(r *stint.ActiveRun, at time.Time, id string) []string {
	since, cpu, memory, tokens, cost := r.CreatedAt, "-", "-", "-", "-"
	if r.StartedAt != nil {
		since = *r.StartedAt
	}
	if m := r.Metrics; m != nil {
		cpu, memory = fmt.Sprintf("%.1f%%", m.CPUPercent), bytesText(m.MemoryUsedMb<<20)
	}
	if u := r.Usage; u != nil {
		tokens = fmt.Sprint(u.Total())
		if u.CostUSD != nil {
			cost = fmt.Sprintf("$%.4f", *u.CostUSD)
		}
	}
	took := durationText(max(0, at.Sub(since.Time).Milliseconds()))
	return []string{id, r.AgentName, string(r.Status), took, cpu, memory, tokens, cost, detailText(r)}
}

// detailText returns the reason why a run waits, or the prompt of a running one.
func detailText(r *stint.ActiveRun) string {
	if r.Queue != nil {
		return queueText(r.Queue)
	}
	return clip(plain(r.Prompt), 60)
}

// topView is the live table of active runs.
type topView struct {
	server        string
	styled        bool
	activity      *stint.Activity
	err           error // of the last request
	width, height int
}

// draw writes the table to the terminal.
func (v *topView) draw(a *app) {
	v.width, v.height = a.TerminalSize()
	var out strings.Builder
	out.WriteString("\x1b[H")
	for i, line := range v.lines() {
		if i > 0 {
			out.WriteString("\r\n")
		}
		line = clip(line, max(v.width, 2))
		if v.styled && i == headLine && v.err == nil {
			line = "\x1b[7m" + line + strings.Repeat(" ", max(0, v.width-utf8.RuneCountInString(line))) + "\x1b[0m"
		}
		out.WriteString(line + "\x1b[K")
	}
	out.WriteString("\x1b[J")
	fmt.Fprint(a.topScreen, out.String())
}

// headLine is the number of the line with the names of the columns.
const headLine = 2

// lines returns at most as many lines as the terminal has.
func (v *topView) lines() []string {
	state := "q ends this"
	if v.err != nil {
		state = "not updated: " + plain(v.err.Error())
	}
	lines := []string{
		fmt.Sprintf("%s  %s  %d running, %d waiting", v.server, v.activity.At.UTC().Format(time.TimeOnly+"Z"), v.activity.Running, v.activity.Pending),
		state,
	}
	room := max(1, v.height-len(lines)-2) // the head and a line for the rest
	shown := v.activity.Data[:min(room, len(v.activity.Data))]
	lines = append(lines, v.table(shown)...)
	if hidden := v.activity.Running + v.activity.Pending - len(shown); hidden > 0 {
		lines = append(lines, "and "+count(hidden, "other run"))
	}
	return lines[:min(len(lines), max(v.height, 1))]
}

// table returns the lines of the table for some runs, with its head.
func (v *topView) table(runs []stint.ActiveRun) []string {
	var text strings.Builder
	w := newTable(&text)
	fmt.Fprintln(w, strings.ReplaceAll(topColumns, " ", "\t"))
	for i := range runs {
		id := runs[i].ID
		if v.width < wideTerminal && len(id) > shortID {
			id = id[:shortID]
		}
		cells := activityRow(&runs[i], v.activity.At.Time, id)
		for j := range cells {
			cells[j] = plain(cells[j])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a strings.Builder accepts everything
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
}
