package assistant

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/llm"
)

const (
	// defaultContext is the assumed context size of a model in tokens.
	defaultContext = 128_000
	endless        = 1 << 60
	bytesPerToken  = 4        // estimate
	maxRepeated    = 16 << 10 // bytes of the prompt that are added to a summary
	maxRetold      = 4 << 10  // bytes of one step that are summarised
)

// limitOf returns the maximum size of a conversation in tokens. Conversations with the
// offline provider have no limit, because that provider reads from the conversation
// which steps are done.
func limitOf(c *protocol.Config) int64 {
	switch {
	case c.Provider == stint.ProviderOffline:
		return endless
	case c.ContextTokens == 0:
		return defaultContext
	}
	return c.ContextTokens
}

// size returns the estimated size of the conversation in tokens: the model's own count
// at its last answer, if known, plus an estimate for the records after that answer.
func (a *agent) size() int64 {
	var since int
	for i := len(a.session.visible) - 1; i >= 0; i-- {
		e := &a.session.visible[i]
		if e.Type == recordAnswer && a.counted > 0 {
			return a.counted + int64(since/bytesPerToken)
		}
		since += weight(e)
	}
	return int64(since / bytesPerToken)
}

// weight returns the approximate number of bytes that a record adds to a request.
func weight(e *contextRecord) int {
	n := len(e.Text)
	for _, p := range e.Parts {
		n += len(p.Text) + len(p.Input) + len(p.Native)
	}
	return n
}

// errNoSummary means that the model returned no usable summary.
var errNoSummary = &failure{sentence: "The conversation is too long for the model, and the model returned no summary of it. Begin a new session, or set 'model' to one with a longer context."}

// compact replaces the older part of the conversation by a summary. It returns
// false if nothing could be replaced.
func (a *agent) compact(ctx context.Context) (bool, error) {
	cut := a.cut()
	if cut == 0 {
		return false, nil
	}
	old := a.session.visible[:cut]
	r := &relay{out: a.out, prefix: "s"}
	answer, err := a.model.Ask(ctx, llm.Request{
		Model: a.c.Model, Instructions: summaryInstructions,
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: a.asText(old)}}}},
	}, func(e llm.Event) {
		if e.Retry != nil { // the text of the summary is not shown
			r.event(e)
		}
	})
	if err != nil {
		return false, err
	}
	a.count(answer.Usage)
	if answer.Stop == llm.StopRefusal || strings.TrimSpace(answer.Text()) == "" {
		return false, errNoSummary
	}
	summary := "Summary of the conversation so far, because the full record is too long:\n\n" + answer.Text()
	if !slices.ContainsFunc(a.session.visible[cut:], func(e contextRecord) bool { return e.Type == recordPrompt }) {
		short, _ := transcript.Shorten(a.prompt, maxRepeated)
		summary += "\n\nThe user's last prompt:\n\n" + short
	}
	if err := a.add(record{Type: recordCompaction, Through: old[len(old)-1].number, Text: summary, Usage: &answer.Usage}); err != nil {
		return false, err
	}
	a.counted = 0
	a.out.notice("compaction", fmt.Sprintf("The conversation is long; %d earlier steps were summarised.", len(old)))
	return true, nil
}

const summaryInstructions = `Summarise the work of an agent so far, so that it can continue without the full record. Include: what the user wants, with all conditions; what was done, with the paths, names, numbers, and commands that matter; what was found out; what failed, and why; what is left to do. Keep all facts, and use few words. Write only the summary.`

// cut returns the number of records to summarise: all except the newest records that
// fit into a quarter of the context. The first of the remaining records is an answer or
// a prompt, because a request must not start with a tool result.
func (a *agent) cut() int {
	visible, room := a.session.visible, int(a.limit/4*bytesPerToken)
	cut := 0
	for i := len(visible) - 1; i > 0; i-- {
		room -= weight(&visible[i])
		if room < 0 && cut > 0 {
			break
		}
		if t := visible[i].Type; t == recordAnswer || t == recordPrompt {
			cut = i
		}
	}
	if cut == 1 && visible[0].Type == recordCompaction {
		return 0 // the only record to summarise is a summary already
	}
	return cut
}

// asText returns the records as text, shortened to half of the context.
func (a *agent) asText(visible []contextRecord) string {
	var b strings.Builder
	step := func(author, text string) {
		short, _ := transcript.Shorten(text, maxRetold)
		fmt.Fprintf(&b, "[%s]\n%s\n\n", author, short)
	}
	for _, e := range visible {
		switch e.Type {
		case recordAnswer:
			for _, p := range e.Parts {
				switch p.Kind {
				case llm.Text:
					step("agent", p.Text)
				case llm.ToolUse:
					step("tool "+p.Name, string(p.Input))
				}
			}
		case recordResult:
			step("result", e.Text)
		case recordCompaction:
			fmt.Fprintf(&b, "[earlier]\n%s\n\n", e.Text)
		default:
			fmt.Fprintf(&b, "[user]\n%s\n\n", e.Text)
		}
	}
	short, _ := transcript.Shorten(b.String(), int(a.limit/2*bytesPerToken))
	return short
}
