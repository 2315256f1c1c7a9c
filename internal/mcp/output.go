package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// maxText is the longest text in one result, in bytes.
const maxText = 64 << 10

type outputIn struct {
	ID       string `json:"id" jsonschema:"ID of the run"`
	After    string `json:"after,omitempty" jsonschema:"next of the previous call; omit to start at the beginning"`
	MaxBytes int    `json:"maxBytes,omitempty" jsonschema:"maximum number of bytes"`
}

type outputOut struct {
	Text   string       `json:"text" jsonschema:"what the agent wrote, on standard output and standard error alike"`
	Next   string       `json:"next" jsonschema:"pass it as 'after' to continue, now or later"`
	More   bool         `json:"more" jsonschema:"whether there is more already"`
	Status stint.Status `json:"status" jsonschema:"of the run; it writes nothing after its end"`
}

// position is a place in the output of a run: after the event with the number seq,
// and after a number of bytes of the next event's text.
type position struct {
	seq   int64
	bytes int
}

func (p position) String() string { return fmt.Sprintf("%d.%d", p.seq, p.bytes) }

func parsePosition(s string) (p position, err error) {
	if s == "" {
		return p, nil
	}
	seq, bytes, _ := strings.Cut(s, ".")
	p.seq, err = strconv.ParseInt(seq, 10, 64)
	if err == nil {
		p.bytes, err = strconv.Atoi(bytes)
	}
	if err != nil || p.seq < 0 || p.bytes < 0 || p.String() != s {
		return position{}, stint.InvalidParam("after", "'after' must be 'next' of an earlier answer of run_output, or be left out.")
	}
	return p, nil
}

func runOutput(ctx context.Context, c call, in outputIn) (outputOut, error) {
	at, err := parsePosition(in.After)
	if err != nil {
		return outputOut{}, err
	}
	run, err := c.Runs.Get(ctx, in.ID) // read before the events: if the run has ended, they are complete
	if err != nil {
		return outputOut{}, err
	}
	t := outputPage{position: at, room: in.MaxBytes}
	for event, err := range c.Runs.RecordedEvents(ctx, in.ID, at.seq) {
		if err != nil {
			return outputOut{}, err
		}
		full, err := t.add(event)
		if err != nil {
			return outputOut{}, err
		}
		if full {
			break
		}
	}
	return outputOut{t.text.String(), t.String(), t.more, run.Status}, nil
}

// outputPage collects the text of events. The embedded position is the end of this
// text.
type outputPage struct {
	position
	text strings.Builder
	room int  // number of bytes that can be added
	more bool // the event after the position has text that was left out
}

// add adds the text of an event. It reports whether the page is full, so that a
// part of the text was left out.
func (t *outputPage) add(e stint.Event) (full bool, err error) {
	var data stint.OutputData
	if e.Type == stint.EventOutput {
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return false, fmt.Errorf("read event %d: %w", e.Seq, err)
		}
	}
	rest := data.Content[min(t.bytes, len(data.Content)):]
	if taken := whole(rest, t.room); taken < len(rest) {
		if taken == 0 && t.text.Len() == 0 { // a character longer than the whole page
			_, taken = utf8.DecodeRuneInString(rest)
		}
		t.text.WriteString(rest[:taken])
		t.bytes += taken
		t.more = t.bytes < len(data.Content)
		if t.more {
			return true, nil
		}
		rest = ""
	}
	t.text.WriteString(rest)
	t.room -= len(rest)
	t.position = position{seq: e.Seq}
	return false, nil
}

// whole returns the largest length up to n at which s can be cut between
// characters.
func whole(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
