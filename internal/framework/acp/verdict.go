package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/providererror"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxSaid is the most of an agent's own words in a sentence, in bytes.
const maxSaid = 1 << 10

// verdictOf judges the reason for which the agent stopped.
func (c *client) verdictOf(stopReason string) framework.Verdict {
	switch stopReason {
	case "end_turn":
		return framework.Verdict{Completed: true}
	case "max_tokens":
		return framework.Verdict{Message: "The model's answer reached the length that the agent allows, so the agent stopped. Ask for less at once, or let the agent give longer answers."}
	case "max_turn_requests":
		return framework.Verdict{Reason: stint.ReasonBudget, Message: "The agent stopped because it asked its model as often as its own settings allow for one prompt. Raise that limit in the agent's settings, or ask for less at once."}
	case "refusal":
		return framework.Verdict{Message: "The agent's model refused to answer the prompt."}
	case "cancelled":
		return framework.Verdict{Message: "The agent broke off its work."}
	}
	return framework.Verdict{Message: fmt.Sprintf("The agent stopped for a reason that is not known: '%s'.", c.short(stopReason))}
}

// finish is the end of the talk: nothing more is said to the agent, which ends
// with its input.
func (c *client) finish(v framework.Verdict) framework.Step {
	c.end, c.asked, c.loading, c.asking = &v, 0, false, false
	return framework.Step{Events: c.text.close(), CloseStdin: true, Ended: true}
}

func (c *client) fail(message string) framework.Step {
	return c.finish(framework.Verdict{Message: message})
}

// Verdict judges the end.
func (c *client) Verdict(exitCode int) framework.Verdict {
	v := framework.Verdict{Message: c.silence(exitCode)}
	if c.end != nil {
		v = *c.end
	}
	v.Final = c.text.final()
	return v
}

// silence is the sentence on an agent that ended without its last word.
func (c *client) silence(exitCode int) string {
	if c.agent.Version == 0 {
		return fmt.Sprintf("The agent ended without answering the prompt (exit code %d); it did not even answer the greeting of the Agent Client Protocol. Check that 'command' starts it in that mode.", exitCode)
	}
	return fmt.Sprintf("The agent ended without answering the prompt (exit code %d).", exitCode)
}

// faultOf makes a sentence of an error of the agent.
func (c *client) faultOf(what string, e *rpcError) string {
	if e.Code == codeNoMethod {
		return what + ": it does not know the request. Check that 'command' starts it in the mode of the Agent Client Protocol, and its version."
	}
	return what + ": " + ended(c.short(e.text()))
}

// unanswered is the sentence on a prompt that the agent gave up, which most do
// for their model's sake.
func (c *client) unanswered(e *rpcError) string {
	if e.Code == codeAuthRequired {
		return c.loggedOut(e)
	}
	if c.in.Model != nil {
		if sentence, ok := providererror.Known(&c.in, e.text()); ok {
			return sentence
		}
	}
	return c.faultOf("The agent could not answer the prompt", e)
}

// loggedOut says what to do for an agent that is not logged in.
func (c *client) loggedOut(e *rpcError) string {
	said := ""
	if text := e.text(); text != "" && text != "Authentication required" {
		said = " (" + c.short(text) + ")"
	}
	if c.in.Model != nil {
		return fmt.Sprintf("The agent is not logged in%s: it does not use the definition's provider of type '%s', or its key was refused. Check 'provider', or set %s.", said, c.in.Model.Type, c.keyVariables())
	}
	return fmt.Sprintf("The agent is not logged in%s. Give the definition a 'provider' of the type that the agent speaks, or set %s.", said, c.keyVariables())
}

// keyVariables names the variables that the agent says it takes keys from.
func (c *client) keyVariables() string {
	var names []string
	for _, method := range c.agent.Auth {
		for _, v := range method.Vars {
			if len(names) < 8 && v.Name != "" {
				names = append(names, c.short(v.Name))
			}
		}
	}
	if names == nil {
		return "the variable that it reads its key from as a secret of the run"
	}
	return strings.Join(names, " or ") + " as a secret of the run"
}

// text is what an error says, with the detail behind a message that is none.
func (e *rpcError) text() string {
	text := e.Message
	if rest, ok := strings.CutPrefix(text, "Internal error"); ok {
		text = strings.TrimLeft(rest, ": ")
	}
	detail := decode[struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}](e.Data)
	for _, more := range []string{detail.Details, detail.Message, decode[string](e.Data)} {
		if more != "" && !strings.Contains(text, more) {
			text = strings.TrimLeft(text+": "+more, ": ")
			break
		}
	}
	if text == "" {
		return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
	}
	return text
}

// short bounds the agent's own words, in which secrets are masked before: of one
// that is cut in two, neither half would be known.
func (c *client) short(s string) string {
	s, _ = transcript.Shorten(strings.ToValidUTF8(strings.TrimSpace(c.in.Masked(s)), "\uFFFD"), maxSaid)
	return s
}

// ended gives a sentence its end.
func ended(s string) string {
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

// prompted is the agent's answer to the prompt.
type prompted struct {
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
	Meta       struct {
		Quota json.RawMessage `json:"quota"`
	} `json:"_meta"`
}
