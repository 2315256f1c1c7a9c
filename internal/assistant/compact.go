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
	// defaultContext is how many tokens a model is taken to read, unless it says
	// otherwise.
	defaultContext = 128_000
	endless        = 1 << 60
	bytesPerToken  = 4        // about
	maxRepeated    = 16 << 10 // bytes of the prompt that a summary repeats
	maxRetold      = 4 << 10  // bytes of one step that a summary is made of
)

// limitOf is how many tokens a conversation may have. Offline nothing reads them,
// and a summary would hide which steps were done.
func limitOf(c *protocol.Config) int64 {
	switch {
	case c.Provider == stint.ProviderOffline:
		return endless
	case c.ContextTokens == 0:
		return defaultContext
	}
	return c.ContextTokens
}

// size is how many tokens the conversation has, about: as the model counted
// them, and what came since.
func (a *agent) size() int64 {
	var since int
	for i := len(a.session.visible) - 1; i >= 0; i-- {
		e := &a.session.visible[i]
		if e.Type == recordAnswer && a.told > 0 {
			return a.told + int64(since/bytesPerToken)
		}
		since += weight(e)
	}
	return int64(since / bytesPerToken)
}

// weight is how many bytes an contextRecord adds to a request, about.
func weight(e *contextRecord) int {
	n := len(e.Text)
	for _, p := range e.Parts {
		n += len(p.Text) + len(p.Input) + len(p.Native)
	}
	return n
}

// errNoSummary says that the model gave nothing that could stand for what it was
// asked to summarise.
var errNoSummary = &failure{sentence: "The conversation is too long for the model, and the model gave no summary of it. Begin a new session, or set 'model' to one with a longer context."}

// compact puts a summary in the place of the older part of the conversation. It
// reports whether there was one. Without a summary nothing changes.
func (a *agent) compact(ctx context.Context) (bool, error) {
	cut := a.cut()
	if cut == 0 {
		return false, nil
	}
	old := a.session.visible[:cut]
	r := &relay{out: a.out, prefix: "s"}
	answer, err := a.think.Ask(ctx, llm.Request{
		Model: a.c.Model, Instructions: summaryInstructions,
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: a.retell(old)}}}},
	}, func(e llm.Event) {
		if e.Retry != nil { // the text of it is not for the user
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
	summary := "What happened so far, in short, for the full record grew too long:\n\n" + answer.Text()
	if !slices.ContainsFunc(a.session.visible[cut:], func(e contextRecord) bool { return e.Type == recordPrompt }) {
		short, _ := transcript.Shorten(a.prompt, maxRepeated)
		summary += "\n\nWhat the user asked for last, in their words:\n\n" + short
	}
	if err := a.add(record{Type: recordCompaction, Through: old[len(old)-1].number, Text: summary, Usage: &answer.Usage}); err != nil {
		return false, err
	}
	a.told = 0
	a.out.notice("compaction", fmt.Sprintf("The conversation grew long; %d earlier steps were summarised.", len(old)))
	return true, nil
}

const summaryInstructions = `You write down what an agent did so far, so that it can go on without the record of it. Tell: what the user wants, with all conditions; what was done, with paths, names, numbers and commands that matter; what was found out; what failed, and why; what is left to do. Be complete in facts and short in words. Write nothing but this.`

// cut is how many visible a summary would stand for: all but the newest, as far
// as they fit into a quarter of what the model reads. A request cannot begin
// with a tool's result.
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
		return 0 // nothing would be shorter
	}
	return cut
}

// retell is a part of the conversation as text, within half of what the model
// reads.
func (a *agent) retell(visible []contextRecord) string {
	var b strings.Builder
	step := func(who, text string) {
		short, _ := transcript.Shorten(text, maxRetold)
		fmt.Fprintf(&b, "[%s]\n%s\n\n", who, short)
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
