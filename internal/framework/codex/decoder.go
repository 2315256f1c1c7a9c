package codex

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
	"github.com/stint-dev/stint/internal/framework/providererror"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxWaits is how often in a row it may say that it waits for the network: it
// would do so for ever, and is ended instead.
const maxWaits = 10

// waiting is how it begins to say so.
const waiting = "Reconnecting... waiting for network"

// decoder reads a run's output. It trusts no line: what it does not understand
// is kept as it is.
type decoder struct {
	*jsonlines.Reader
	in   framework.Input
	item jsonlines.Object // of the line that is read

	thread   string
	last     string // the newest message
	messages int64
	counted  stint.Tokens // over the whole conversation
	waits    int          // in a row
	trouble  string       // what it said last about what went wrong
	done     bool         // its turn came to its end
	failed   bool         // and that was no good one
}

func newDecoder(in framework.Input) *decoder {
	d := &decoder{in: in}
	d.Reader = jsonlines.NewReader(d.take)
	if in.Resume != nil {
		d.counted = in.Resume.Baseline
	}
	return d
}

// Interrupt knows of no way: it reads nothing after its prompt.
func (d *decoder) Interrupt() []byte { return nil }

func (d *decoder) Conversation() framework.Conversation {
	id := d.thread
	if id == "" {
		id = resumed(d.in) // it never came so far as to go on
	}
	if id == "" {
		return framework.Conversation{}
	}
	return framework.Conversation{Framework: catalog.Codex.Name, Version: d.in.Program.Version, ID: id, Baseline: d.counted}
}

func (d *decoder) take(s *framework.Step, kind string, text []byte, cut bool) {
	if cut {
		s.Events = append(s.Events, jsonlines.TooLong())
	}
	if kind != "error" {
		d.waits = 0
	}
	name := kind
	switch kind {
	case "thread.started":
		d.thread = d.Line.Text("thread_id")
	case "item.started", "item.updated", "item.completed":
		d.item.Read(d.Line.Raw("item"))
		if of := d.item.Text("type"); of != "" {
			name += "/" + of
		}
		d.readItem(s, strings.TrimPrefix(kind, "item."))
	case "turn.completed":
		d.done, s.Ended = true, true
		d.count(s)
	case "turn.failed":
		d.done, d.failed, s.Ended = true, true, true
		var e struct{ Message string }
		if d.Line.Decode("error", &e) && e.Message != "" {
			d.trouble = e.Message
		}
	case "error":
		d.error(s, d.Line.Text("message"))
	}
	s.Native = append(s.Native, framework.Native{Type: name, Line: string(text)})
}

// count takes the counts of the whole conversation. What a run used that was
// killed before its end counts for the one that goes on.
func (d *decoder) count(s *framework.Step) {
	var t struct {
		Input     int64 `json:"input_tokens"`
		Cached    int64 `json:"cached_input_tokens"`
		Written   int64 `json:"cache_write_input_tokens"`
		Output    int64 `json:"output_tokens"`
		Reasoning int64 `json:"reasoning_output_tokens"`
	}
	if !d.Line.Decode("usage", &t) {
		return
	}
	base := stint.Tokens{}
	if d.in.Resume != nil {
		base = d.in.Resume.Baseline
	}
	d.counted = stint.Tokens{
		InputTokens: t.Input, CacheReadTokens: t.Cached, CacheWriteTokens: t.Written,
		OutputTokens: t.Output, ReasoningTokens: t.Reasoning,
	}
	used := d.counted.Minus(base)
	if used.Total() == 0 {
		return
	}
	used.ModelCalls = max(1, d.messages) // it does not tell its calls; each message came of one
	var u stint.Usage
	u.Count(d.in.Definition.Model, used)
	s.Usage = &u
}

// error is something that went wrong, of which most is tried again.
func (d *decoder) error(s *framework.Step, message string) {
	d.trouble = message
	if strings.HasPrefix(message, "Reconnecting") {
		s.Events = append(s.Events, transcript.Notice("api_retry", message))
	}
	if !strings.HasPrefix(message, waiting) {
		d.waits = 0
		return
	}
	if d.waits++; d.waits == maxWaits {
		d.done, d.failed, s.Ended = true, true, true
	}
}

// Verdict goes by the end of the turn; without one the run failed, whatever the
// exit code.
func (d *decoder) Verdict(exitCode int) framework.Verdict {
	switch {
	case d.done && !d.failed:
		return framework.Verdict{Completed: true, Final: d.last}
	case d.failed:
		return framework.Verdict{Message: providererror.Failure(&d.in, "CODEX_API_KEY", 0, d.trouble), Final: d.last}
	}
	return framework.Verdict{Message: d.silent(exitCode), Final: d.last}
}

// silent says why the turn may have no end.
func (d *decoder) silent(exitCode int) string {
	said := d.Tail()
	why := ""
	switch {
	case strings.Contains(said, "no rollout found"):
		return "The agent does not find the conversation that the run goes on with. Begin a new session, or go on from an earlier checkpoint."
	case strings.Contains(said, "unexpected argument"):
		why = " The installed Codex does not know an option that it is given; update it (" + Framework{}.Info().Install + ")."
	case d.trouble != "":
		why = " " + providererror.Failure(&d.in, "CODEX_API_KEY", 0, d.trouble)
	case exitCode == 0 && !d.Wrote:
		why = " It wrote nothing at all."
	}
	return fmt.Sprintf("The agent ended without a result (exit code %d).%s", exitCode, why)
}
