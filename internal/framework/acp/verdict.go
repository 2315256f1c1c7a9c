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

// maxQuote is the maximum length in bytes of a text of the agent that a message
// quotes.
const maxQuote = 1 << 10

// verdictFor returns the verdict for a stop reason of the protocol.
func (c *client) verdictFor(stopReason string) framework.Verdict {
	switch stopReason {
	case "end_turn":
		return framework.Verdict{Completed: true}
	case "max_tokens":
		return framework.Verdict{Message: "The model's answer reached the length that the agent allows, so the agent stopped. Ask for less at once, or let the agent give longer answers."}
	case "max_turn_requests":
		return framework.Verdict{Reason: stint.ReasonBudget, Message: "The agent stopped because it reached its own limit of model requests for one prompt. Raise that limit in the agent's settings, or ask for less at once."}
	case "refusal":
		return framework.Verdict{Message: "The agent's model refused to answer the prompt."}
	case "cancelled":
		return framework.Verdict{Message: "The agent cancelled its work."}
	}
	return framework.Verdict{Message: fmt.Sprintf("The agent stopped for an unknown reason: '%s'.", c.quote(stopReason))}
}

// finish records the verdict and returns a step that closes the agent's standard
// input. The agent then exits.
func (c *client) finish(v framework.Verdict) framework.Step {
	c.end, c.asked, c.isLoading, c.isPrompting = &v, 0, false, false
	return framework.Step{Events: c.text.close(), CloseStdin: true, Ended: true}
}

func (c *client) fail(message string) framework.Step {
	return c.finish(framework.Verdict{Message: message})
}

// Verdict returns the result of the run.
func (c *client) Verdict(exitCode int) framework.Verdict {
	v := framework.Verdict{Message: c.noAnswer(exitCode)}
	if c.end != nil {
		v = *c.end
	}
	v.Final = c.text.final()
	return v
}

// noAnswer returns the message for an agent that ended without answering the
// prompt.
func (c *client) noAnswer(exitCode int) string {
	if c.agent.Version == 0 {
		return fmt.Sprintf("The agent ended without answering the prompt (exit code %d); it did not answer 'initialize' of the Agent Client Protocol either. Check that 'command' starts it in that mode.", exitCode)
	}
	return fmt.Sprintf("The agent ended without answering the prompt (exit code %d).", exitCode)
}

// agentError returns the message for an error response of the agent. what is the start
// of the message.
func (c *client) agentError(what string, e *rpcError) string {
	if e.Code == codeNoMethod {
		return what + ": it does not know the request. Check that 'command' starts it in the mode of the Agent Client Protocol, and its version."
	}
	return what + ": " + withFullStop(c.quote(e.text()))
}

// promptError returns the message for an error response to the prompt. Most such
// errors are caused by the model's provider.
func (c *client) promptError(e *rpcError) string {
	if e.Code == codeAuthRequired {
		return c.loginError(e)
	}
	if c.in.Model != nil {
		if sentence, ok := providererror.Known(&c.in, e.text()); ok {
			return sentence
		}
	}
	return c.agentError("The agent could not answer the prompt", e)
}

// loginError returns the message for an agent that is not authenticated.
func (c *client) loginError(e *rpcError) string {
	said := ""
	if text := e.text(); text != "" && text != "Authentication required" {
		said = " (" + c.quote(text) + ")"
	}
	if c.in.Model != nil {
		return fmt.Sprintf("The agent is not logged in%s: it does not use the definition's provider of type '%s', or its key was refused. Check 'provider', or set %s.", said, c.in.Model.Type, c.keyVariables())
	}
	return fmt.Sprintf("The agent is not logged in%s. Give the definition a 'provider' of a type that the agent supports, or set %s.", said, c.keyVariables())
}

// keyVariables returns a phrase that names the environment variables from which the
// agent reads its key.
func (c *client) keyVariables() string {
	var names []string
	for _, method := range c.agent.Auth {
		for _, v := range method.Vars {
			if len(names) < 8 && v.Name != "" {
				names = append(names, c.quote(v.Name))
			}
		}
	}
	if names == nil {
		return "the variable that it reads its key from as a secret of the run"
	}
	return strings.Join(names, " or ") + " as a secret of the run"
}

// text returns the message of an error without the prefix "Internal error",
// followed by the details in the error's data, if any.
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

// quote returns a text of the agent for use in a message: masked, and cut to
// maxQuote bytes. Masking comes first, because a secret that was cut could not be
// found.
func (c *client) quote(s string) string {
	s, _ = transcript.Shorten(strings.ToValidUTF8(strings.TrimSpace(c.in.Masked(s)), "\uFFFD"), maxQuote)
	return s
}

// withFullStop returns s with a full stop at its end.
func withFullStop(s string) string {
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

// promptResult is the response to the prompt.
type promptResult struct {
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
	Meta       struct {
		Quota json.RawMessage `json:"quota"`
	} `json:"_meta"`
}
