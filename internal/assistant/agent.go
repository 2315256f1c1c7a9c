package assistant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/jsonschema"
	"github.com/stint-dev/stint/internal/llm"
)

const (
	maxCorrections = 2 // how often the model is asked to correct its result
	maxExtensions  = 3 // how often the model may continue an answer that was cut
)

// model answers requests. llm.Client and offline implement it.
type model interface {
	Ask(ctx context.Context, r llm.Request, on func(llm.Event)) (llm.Answer, error)
}

// agent works on one prompt.
type agent struct {
	c       *protocol.Config
	out     *lineWriter
	model   model
	tools   *toolbox
	session *session

	prompt  string
	usage   stint.Usage
	turns   int64
	limit   int64 // context size of the model in tokens, as far as known
	counted int64 // tokens of the conversation at the last answer; 0 if not known
	// unsummarised is set if the model returned no summary. Another summary is
	// requested only if the model refuses the conversation because of its length.
	unsummarised bool

	message                 string // final message so far; the model may send it in several answers
	corrections, extensions int
}

// run works on the prompt until the model sends its final message, and returns
// that message.
func (a *agent) run(ctx context.Context, prompt string) (string, error) {
	a.prompt = prompt
	if err := a.add(record{Type: recordPrompt, Text: prompt}); err != nil {
		return "", err
	}
	for {
		answer, err := a.ask(ctx)
		if err != nil {
			return "", err
		}
		if uses := usesOf(answer.Parts); len(uses) > 0 {
			a.message = ""
			if err := a.work(ctx, uses); err != nil {
				return answer.Text(), err
			}
			continue
		}
		final, note, err := a.judge(&answer)
		if err != nil || note == "" {
			return final, err
		}
		if err := a.add(record{Type: recordNote, Text: note}); err != nil {
			return "", err
		}
	}
}

// add appends a record to the conversation and syncs the file.
func (a *agent) add(r record) error {
	if err := a.session.add(r); err != nil {
		return err
	}
	return a.session.sync()
}

// ask requests the next answer and stores it. If the conversation fills most of the
// context, ask summarises it before the request. If the model refuses the conversation
// as too long, ask summarises it and repeats the request.
func (a *agent) ask(ctx context.Context) (llm.Answer, error) {
	if a.size() > a.limit*4/5 && !a.unsummarised {
		switch _, err := a.compact(ctx); {
		case errors.Is(err, errNoSummary):
			a.unsummarised = true
			a.out.notice("no_summary", "The conversation is long, and the model returned no summary of it. It continues without a summary until the model refuses it.")
		case err != nil:
			return llm.Answer{}, err
		}
	}
	answer, err := a.once(ctx)
	if fault, ok := errors.AsType[*llm.Error](err); ok && fault.Fault() == llm.FaultContext {
		a.limit = min(a.limit, a.size()*3/4)
		a.counted = 0
		shorter, failed := a.compact(ctx)
		switch {
		case failed != nil:
			return answer, failed
		case shorter:
			answer, err = a.once(ctx)
		}
	}
	if err != nil {
		return answer, err
	}
	a.turns++
	a.counted = answer.Usage.InputTokens + answer.Usage.OutputTokens
	a.session.number(answer.Parts)
	r := record{Type: recordAnswer, Parts: answer.Parts, Model: a.c.Model}
	if answer.Usage.ModelCalls > 0 {
		r.Usage = &answer.Usage
	}
	if err := a.session.add(r); err != nil {
		return answer, err
	}
	a.count(answer.Usage)
	return answer, a.session.sync()
}

// once sends one request and reports the answer while it arrives.
func (a *agent) once(ctx context.Context) (llm.Answer, error) {
	r := &relay{out: a.out, prefix: fmt.Sprintf("m%d", a.session.records)}
	defer r.close()
	return a.model.Ask(ctx, llm.Request{
		Model: a.c.Model, Instructions: instructions(a.c), Messages: a.session.messages(), Tools: a.tools.list(),
	}, r.event)
}

// count adds t to the usage of the run and reports the total so far.
func (a *agent) count(t stint.Tokens) {
	line := protocol.Line{Type: protocol.LineUsage, Turns: a.turns}
	if t.ModelCalls > 0 {
		a.usage.Count(a.c.Model, t)
	}
	if a.usage.ModelCalls > 0 {
		usage := a.usage.Clone()
		line.Usage = &usage
	}
	a.out.write(line)
}

// work runs the tool calls in order and stores a result for each, also if the turns are
// spent or ctx has ended.
func (a *agent) work(ctx context.Context, uses []llm.Part) error {
	spent := a.spent()
	for _, p := range uses {
		var o outcome
		switch {
		case spent:
			o = failed("Not done: the run has no turns left.")
		case ctx.Err() != nil:
			o = failed(interruptedResult)
		default:
			o = a.use(ctx, p)
		}
		if err := a.session.add(record{Type: recordResult, ID: p.ID, Name: p.Name, Text: o.text, Failed: o.failed}); err != nil {
			return err
		}
	}
	if err := a.session.sync(); err != nil {
		return err
	}
	if spent {
		return a.overTurns()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (a *agent) spent() bool { return a.c.MaxTurns > 0 && a.turns >= a.c.MaxTurns }

func (a *agent) overTurns() error {
	return &failure{reason: stint.ReasonBudget, sentence: fmt.Sprintf("The run has used %d of %d turns and was ended. Raise limits.maxTurns in the agent's definition, or ask for less in one run.", a.turns, a.c.MaxTurns)}
}

// use runs one tool call, and reports its start and its result.
func (a *agent) use(ctx context.Context, p llm.Part) outcome {
	a.out.write(protocol.Line{Type: protocol.LineCall, Tool: &stint.ToolItem{ID: p.ID, Name: p.Name, Input: p.Input}})
	o := a.tools.use(ctx, p)
	if ctx.Err() != nil {
		o.failed = true
		o.text = strings.TrimSpace(o.text + "\n" + interruptedResult)
	}
	status := stint.ToolCompleted
	if o.failed || o.exitCode != nil && *o.exitCode != 0 {
		status = stint.ToolFailed
	}
	a.out.write(protocol.Line{Type: protocol.LineResult, Text: o.text, Tool: &stint.ToolItem{
		ID: p.ID, Name: p.Name, Status: status, ExitCode: o.exitCode, Truncated: o.truncated,
	}})
	return o
}

// judge examines an answer without tool calls. If note is empty, final is the final
// message. Otherwise the caller sends note to the model and continues.
func (a *agent) judge(answer *llm.Answer) (final, note string, err error) {
	a.message += answer.Text()
	final = a.message
	switch {
	case answer.Stop == llm.StopRefusal:
		return final, "", &failure{sentence: "The model refused to continue. Change the prompt, or the agent's instructions."}
	case answer.Stop == llm.StopLength && a.spent():
		return final, "", a.overTurns()
	case answer.Stop == llm.StopLength && a.extensions == maxExtensions:
		return final, "", &failure{sentence: fmt.Sprintf("The model's answers reached their maximum length %d times, and the last one is incomplete. Ask for less in one answer, or for a file that is written in several steps.", maxExtensions+1)}
	case answer.Stop == llm.StopLength:
		a.extensions++
		a.out.notice("length", "The answer reached its maximum length; the model is asked to continue.")
		return final, "Your answer reached its maximum length and was cut. Continue exactly where it ended, and do not repeat any of it. Write long files in several steps.", nil
	case len(a.c.Schema) == 0:
		return final, "", nil
	}
	_, fault := jsonschema.ParseResult(a.c.Schema, final)
	switch {
	case fault == nil:
		return final, "", nil
	case a.corrections < maxCorrections && !a.spent():
		a.corrections++
		a.message = ""
		a.out.notice("schema", "The last message does not match output.schema; the model is asked again.")
		return final, fmt.Sprintf("Your last message does not match the JSON Schema: %v Answer again with one JSON value that matches the JSON Schema, and nothing else.", fault), nil
	}
	return final, "", &failure{reason: stint.ReasonMismatch, sentence: fmt.Sprintf("The agent's last message does not match output.schema: %v", fault)}
}

func usesOf(parts []llm.Part) (uses []llm.Part) {
	for _, p := range parts {
		if p.Kind == llm.ToolUse {
			uses = append(uses, p)
		}
	}
	return uses
}

// instructions returns the system prompt: the environment, and then the
// definition's instructions.
func instructions(c *protocol.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, `You are an agent that works alone in a sandbox, which is a Linux machine of its own. Questions cannot be answered while you work: decide what is reasonable, and state your assumptions.
Your working directory is %s. Its files are stored as the result when you end.
`, c.WorkDir)
	for _, v := range c.Volumes {
		access := "read-only"
		if v.Writable {
			access = "writable"
		}
		fmt.Fprintf(&b, "The volume %s is mounted at %s (%s).\n", v.Name, v.Path, access)
	}
	b.WriteString(`Use the tools to do the work; do not only describe it. Read files before you change them, and verify your changes. When you are done, end with a short message about what you did and the result.
`)
	if c.Instructions != "" {
		b.WriteString("\n" + c.Instructions + "\n")
	}
	return b.String()
}
