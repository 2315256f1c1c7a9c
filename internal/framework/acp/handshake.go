package acp

import (
	"fmt"

	"github.com/stint-dev/stint/internal/framework"
)

// initialized handles the initialize response and opens a session.
func (c *client) initialized(m *message) framework.Step {
	if m.Error != nil {
		return c.fail(c.agentError("The agent refused 'initialize' of the Agent Client Protocol", m.Error))
	}
	c.agent = decode[initializeResult](m.Result)
	if v := c.agent.Version; v != protocolVersion {
		return c.fail(fmt.Sprintf("The agent uses version %d of the Agent Client Protocol, but version %d is needed. Install a version of the agent that supports it.", v, protocolVersion))
	}
	servers, notices := mcpServers(c.in.MCP, c.agent.Capabilities.MCP.HTTP)
	o := sessionAttempt{cwd: c.in.WorkDir, servers: servers}
	var s framework.Step
	s.Events = notices
	s.Join(c.openSession(c.firstAttempt(o)))
	return s
}

// sessionAttempt has the parameters and the method of a request that opens a session.
type sessionAttempt struct {
	cwd     string
	servers []mcpServer
	method  string
}

// firstAttempt returns o with the first method to try. The method is empty if the
// run resumes a conversation but the agent cannot load one.
func (c *client) firstAttempt(o sessionAttempt) sessionAttempt {
	switch {
	case c.in.ResumeID() == "":
		o.method = "session/new"
	case c.agent.canResume():
		o.method = "session/resume"
	case c.agent.Capabilities.Load:
		o.method = "session/load"
	}
	return o
}

// openSession sends the request that opens the session.
func (c *client) openSession(o sessionAttempt) framework.Step {
	var s framework.Step
	if o.method == "" {
		s = notice("conversation_lost", "The agent cannot load conversations: it starts a new one, with only the files of the earlier runs.")
		o.method = "session/new"
	}
	params := map[string]any{"cwd": o.cwd, "mcpServers": o.servers}
	if o.method != "session/new" {
		params["sessionId"] = c.in.Resume.ID
	}
	c.isLoading = o.method == "session/load"
	s.Join(c.request(o.method, params, func(m *message) framework.Step { return c.sessionOpened(o, m) }))
	return s
}

// sessionOpened handles the response to the request that opens a session. After an
// error it tries the next method.
func (c *client) sessionOpened(o sessionAttempt, m *message) framework.Step {
	if m.Error != nil {
		return c.sessionFailed(o, m.Error)
	}
	answer := decode[sessionResult](m.Result)
	c.session = answer.ID
	fresh := o.method == "session/new"
	if !fresh {
		c.session = c.in.Resume.ID
	}
	if c.session == "" {
		return c.fail("The agent started a session without an ID, so it cannot be prompted. Install another version of the agent.")
	}
	ask := func() framework.Step { return c.selectModel(&answer, fresh) }
	if !c.isLoading {
		return ask()
	}
	// Some agents send more history after their response to session/load. They
	// answer requests in order, so the response to one more request follows the
	// last update of the history. The method of that request does not exist.
	return c.request("_stint/settled", map[string]string{"sessionId": c.session}, func(*message) framework.Step {
		c.isLoading = false
		return ask()
	})
}

func (c *client) sessionFailed(o sessionAttempt, e *rpcError) framework.Step {
	c.isLoading = false
	if e.Code == codeAuthRequired {
		return c.logIn(o, e)
	}
	switch {
	case o.method == "session/new":
		return c.fail(c.agentError("The agent could not start a session", e))
	case o.method == "session/resume" && c.agent.Capabilities.Load && e.Code != codeNotFound:
		o.method = "session/load"
		return c.openSession(o)
	}
	s := notice("conversation_lost", "The agent could not continue its conversation ("+c.quote(e.text())+"): it starts a new one, with only the files of the earlier runs.")
	o.method = "session/new"
	s.Join(c.openSession(o))
	return s
}

// logIn sends an authenticate request, at most once per run, and then repeats the
// attempt o. It uses only methods with a key that the agent already has, not
// interactive methods. e is the error of the failed attempt.
func (c *client) logIn(o sessionAttempt, e *rpcError) framework.Step {
	for _, method := range c.agent.Auth {
		if c.triedLogin || !method.isUnattended() {
			continue
		}
		c.triedLogin = true
		return c.request("authenticate", map[string]string{"methodId": method.ID}, func(m *message) framework.Step {
			if m.Error != nil {
				return c.fail(c.loginError(e))
			}
			return c.openSession(o)
		})
	}
	return c.fail(c.loginError(e))
}

// selectModel sets the definition's model if the agent offers a choice, and then
// sends the prompt.
func (c *client) selectModel(o *sessionResult, fresh bool) framework.Step {
	model := c.in.Definition.Model
	if model == "" {
		return c.sendPrompt(fresh)
	}
	method, params := o.modelRequest(c.session, model)
	if method == "" {
		return c.sendPrompt(fresh)
	}
	return c.request(method, params, func(m *message) framework.Step {
		var s framework.Step
		if m.Error != nil {
			s = notice("model", fmt.Sprintf("The agent did not accept the model '%s' and uses its own choice: %s", model, withFullStop(c.quote(m.Error.text()))))
		}
		s.Join(c.sendPrompt(fresh))
		return s
	})
}

// sendPrompt sends the prompt. fresh is true for a new conversation.
func (c *client) sendPrompt(fresh bool) framework.Step {
	c.isPrompting = true
	return c.request("session/prompt", map[string]any{"sessionId": c.session, "prompt": prompt(&c.in, fresh)}, c.promptAnswered)
}

// promptAnswered handles the response to the prompt, which ends the run.
func (c *client) promptAnswered(m *message) framework.Step {
	if m.Error != nil {
		return c.fail(c.promptError(m.Error))
	}
	result := decode[promptResult](m.Result)
	s := c.finish(c.verdictFor(result.StopReason))
	s.Usage = c.usage.final(&result)
	return s
}
