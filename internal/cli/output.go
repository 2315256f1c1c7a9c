package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/stint-dev/stint"
)

// printJSON writes a value as JSON on one line of standard output.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// newTable returns a writer that aligns tab-separated columns.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 4, 2, ' ', 0) }

// rawFlag adds the flag --raw to a command that prints the output of agents.
func (a *app) rawFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.raw, "raw", false, "pass control sequences to the terminal, which could control it")
}

// plain replaces control characters by spaces.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// note writes a message, which is not a result, to standard error.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) }

// styled reports whether a stream is a terminal that supports colours, and the user
// has not disabled them.
func (a *app) styled(fd int) bool {
	return a.IsTerminal(fd) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

// Escape codes of terminal colours and styles.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (a *app) colour(fd int, code, text string) string {
	if !a.styled(fd) {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func statusColour(s stint.Status) string {
	switch s {
	case stint.Completed:
		return green
	case stint.Failed, stint.TimedOut:
		return red
	case stint.Cancelled:
		return yellow
	}
	return bold
}

func text(t *stint.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// bytesText formats a number of bytes with a binary unit, such as "1.5 MiB".
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// count formats a number with its noun, which is given in the singular.
func count[T int | int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// durationText formats a duration in milliseconds, such as "12ms", "1.4s", and "2m3s".
func durationText(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch tenths := d.Round(100 * time.Millisecond); {
	case d < time.Second:
		return d.String()
	case tenths < time.Minute:
		return fmt.Sprintf("%.1fs", tenths.Seconds())
	}
	return d.Round(time.Second).String()
}

// clip returns s if it has at most n characters. Otherwise it returns the first n-1
// characters and an ellipsis.
func clip(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}
