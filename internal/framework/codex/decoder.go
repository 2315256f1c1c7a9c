package codex

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
	"github.com/stint-dev/stint/internal/framework/providererror"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxWaits is the number of consecutive messages that Codex waits for the network
// after which the run is ended as failed. Codex would wait forever.
const maxWaits = 10

// waitingPrefix is the prefix of the messages that Codex waits for the network.
const waitingPrefix = "Reconnecting... waiting for network"

// decoder decodes the output of a run. Lines of unknown types are returned only as
// native lines.
type decoder struct {
	*jsonlines.Reader[line, *line]
	in framework.Input

	thread    string       // ID of the conversation
	last      string       // the agent's last message
	messages  int64        // number of the agent's messages
	tokens    stint.Tokens // tokens of the whole conversation
	waits     int          // consecutive messages with waitingPrefix
	lastError string       // the last error message
	done      bool         // the turn ended
	failed    bool         // the turn ended without success
}

func newDecoder(in framework.Input) *decoder {
	d := &decoder{in: in}
	d.Reader = jsonlines.NewReader[line](d.take)
	if in.Resume != nil {
		d.tokens = in.Resume.Baseline
	}
	return d
}

// Interrupt returns nil: Codex does not read standard input after the prompt.
func (d *decoder) Interrupt() []byte { return nil }

func (d *decoder) Conversation() framework.Conversation {
	id := cmp.Or(d.thread, d.in.ResumeID()) // Codex may have ended before it resumed the thread
	if id == "" {
		return framework.Conversation{}
	}
	return framework.Conversation{Framework: catalog.Codex.Name, Version: d.in.Program.Version, ID: id, Baseline: d.tokens}
}

func (d *decoder) take(s *framework.Step, kind string, l *line, text []byte, cut bool) {
	if cut {
		s.Events = append(s.Events, jsonlines.TooLong())
	}
	if kind != "error" {
		d.waits = 0
	}
	name := kind
	switch kind {
	case "thread.started":
		d.thread = l.ThreadID
	case "item.started", "item.updated", "item.completed":
		if l.Item.Type != "" {
			name += "/" + l.Item.Type
		}
		d.readItem(s, strings.TrimPrefix(kind, "item."), &l.Item)
	case "turn.completed":
		d.done, s.Ended = true, true
		d.count(s, l.Usage)
	case "turn.failed":
		d.done, d.failed, s.Ended = true, true, true
		d.lastError = cmp.Or(l.Error.Message, d.lastError)
	case "error":
		d.error(s, l.Message)
	}
	s.Native = append(s.Native, framework.Native{Type: name, Line: string(text)})
}

// count computes the usage of the run from the token counts of the whole
// conversation, less those of earlier runs. A run that was killed reports no
// tokens, so the next run's usage includes the tokens of both.
func (d *decoder) count(s *framework.Step, t *usage) {
	if t == nil {
		return
	}
	base := stint.Tokens{}
	if d.in.Resume != nil {
		base = d.in.Resume.Baseline
	}
	d.tokens = stint.Tokens{
		InputTokens: t.Input, CacheReadTokens: t.Cached, CacheWriteTokens: t.Written,
		OutputTokens: t.Output, ReasoningTokens: t.Reasoning,
	}
	used := d.tokens.Minus(base)
	if used.Total() == 0 {
		return
	}
	used.ModelCalls = max(1, d.messages) // Codex does not report model calls; each message needs at least one
	var u stint.Usage
	u.Count(d.in.Definition.Model, used)
	s.Usage = &u
}

// error handles an error message. Codex retries after most errors, so only too many
// messages with waitingPrefix end the run.
func (d *decoder) error(s *framework.Step, message string) {
	d.lastError = message
	if strings.HasPrefix(message, "Reconnecting") {
		s.Events = append(s.Events, transcript.Notice("api_retry", message))
	}
	if !strings.HasPrefix(message, waitingPrefix) {
		d.waits = 0
		return
	}
	if d.waits++; d.waits == maxWaits {
		d.done, d.failed, s.Ended = true, true, true
	}
}

// Verdict returns the result of the run according to the end of the turn. If the
// turn did not end, the run failed, even if the exit code is 0.
func (d *decoder) Verdict(exitCode int) framework.Verdict {
	switch {
	case d.done && !d.failed:
		return framework.Verdict{Completed: true, Final: d.last}
	case d.failed:
		return framework.Verdict{Message: providererror.Failure(&d.in, "CODEX_API_KEY", 0, d.lastError), Final: d.last}
	}
	return framework.Verdict{Message: d.noResult(exitCode), Final: d.last}
}

// noResult returns the error message for a run in which the turn did not end.
func (d *decoder) noResult(exitCode int) string {
	said := d.Tail()
	why := ""
	switch {
	case strings.Contains(said, "no rollout found"):
		return "The agent cannot find the conversation of this session. Begin a new session, or resume an earlier checkpoint."
	case strings.Contains(said, "unexpected argument"):
		why = " The installed Codex does not know an option that it is given; update it (" + Framework{}.Info().Install + ")."
	case d.lastError != "":
		why = " " + providererror.Failure(&d.in, "CODEX_API_KEY", 0, d.lastError)
	case exitCode == 0 && !d.Wrote:
		why = " It wrote nothing at all."
	}
	return fmt.Sprintf("The agent ended without a result (exit code %d).%s", exitCode, why)
}
