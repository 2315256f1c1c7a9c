package acp

import (
	"fmt"

	"github.com/stint-dev/stint/internal/framework"
)

// greet takes the answer to the greeting and begins a session, or goes on with
// the last one.
func (c *client) greet(m *message) framework.Step {
	if m.Error != nil {
		return c.fail(c.faultOf("The agent refused the greeting of the Agent Client Protocol", m.Error))
	}
	c.agent = decode[greeted](m.Result)
	if v := c.agent.Version; v != protocolVersion {
		return c.fail(fmt.Sprintf("The agent speaks version %d of the Agent Client Protocol, but version %d is needed. Install a version of the agent that speaks it.", v, protocolVersion))
	}
	servers, notices := mcpServers(c.in.MCP, c.agent.Capabilities.MCP.HTTP)
	o := opening{cwd: c.in.WorkDir, servers: servers}
	var s framework.Step
	s.Events = notices
	s.Join(c.open(c.begin(o)))
	return s
}

// opening is a way to a session and what to try where it fails.
type opening struct {
	cwd     string
	servers []mcpServer
	method  string
}

// begin chooses the first way to a session.
func (c *client) begin(o opening) opening {
	switch r := c.in.Resume; {
	case r == nil || r.ID == "":
		o.method = "session/new"
	case c.agent.resumes():
		o.method = "session/resume"
	case c.agent.Capabilities.Load:
		o.method = "session/load"
	}
	return o
}

// open asks for the session.
func (c *client) open(o opening) framework.Step {
	var s framework.Step
	if o.method == "" {
		s = notice("conversation_lost", "The agent cannot load conversations: it begins a new one and knows of the earlier runs only what lies in the files.")
		o.method = "session/new"
	}
	params := map[string]any{"cwd": o.cwd, "mcpServers": o.servers}
	if o.method != "session/new" {
		params["sessionId"] = c.in.Resume.ID
	}
	c.loading = o.method == "session/load"
	s.Join(c.request(o.method, params, func(m *message) framework.Step { return c.opened(o, m) }))
	return s
}

// opened takes the session, or tries the next way to one.
func (c *client) opened(o opening, m *message) framework.Step {
	if m.Error != nil {
		return c.notOpened(o, m.Error)
	}
	answer := decode[opened](m.Result)
	c.session = answer.ID
	fresh := o.method == "session/new"
	if !fresh {
		c.session = c.in.Resume.ID
	}
	if c.session == "" {
		return c.fail("The agent began a session without a name for it, so it cannot be asked anything. Install another version of the agent.")
	}
	ask := func() framework.Step { return c.choose(&answer, fresh) }
	if !c.loading {
		return ask()
	}
	// Some agents go on telling the history behind their answer. They are done
	// with it when they refuse a request that nobody knows.
	return c.request("_stint/settled", map[string]string{"sessionId": c.session}, func(*message) framework.Step {
		c.loading = false
		return ask()
	})
}

func (c *client) notOpened(o opening, e *rpcError) framework.Step {
	c.loading = false
	if e.Code == codeAuthRequired {
		return c.logIn(o, e)
	}
	switch {
	case o.method == "session/new":
		return c.fail(c.faultOf("The agent could not begin a session", e))
	case o.method == "session/resume" && c.agent.Capabilities.Load && e.Code != codeNotFound:
		o.method = "session/load"
		return c.open(o)
	}
	s := notice("conversation_lost", "The agent could not go on with its conversation ("+c.short(e.text())+"): it begins a new one and knows of the earlier runs only what lies in the files.")
	o.method = "session/new"
	s.Join(c.open(o))
	return s
}

// logIn uses a key that the agent was given, once; ways that ask a person are
// of no use here.
func (c *client) logIn(o opening, e *rpcError) framework.Step {
	for _, method := range c.agent.Auth {
		if c.tried || !method.unattended() {
			continue
		}
		c.tried = true
		return c.request("authenticate", map[string]string{"methodId": method.ID}, func(m *message) framework.Step {
			if m.Error != nil {
				return c.fail(c.loggedOut(e))
			}
			return c.open(o)
		})
	}
	return c.fail(c.loggedOut(e))
}

// choose sets the definition's model where the agent offers it, then asks.
func (c *client) choose(o *opened, fresh bool) framework.Step {
	model := c.in.Definition.Model
	if model == "" {
		return c.ask(fresh)
	}
	method, params := o.modelRequest(c.session, model)
	if method == "" {
		return c.ask(fresh)
	}
	return c.request(method, params, func(m *message) framework.Step {
		var s framework.Step
		if m.Error != nil {
			s = notice("model", fmt.Sprintf("The agent did not take the model '%s' and goes on with its own choice: %s", model, ended(c.short(m.Error.text()))))
		}
		s.Join(c.ask(fresh))
		return s
	})
}

// ask sends the prompt.
func (c *client) ask(fresh bool) framework.Step {
	c.asking = true
	return c.request("session/prompt", map[string]any{"sessionId": c.session, "prompt": prompt(&c.in, fresh)}, c.answered)
}

// answered takes the agent's last word.
func (c *client) answered(m *message) framework.Step {
	if m.Error != nil {
		return c.fail(c.unanswered(m.Error))
	}
	result := decode[prompted](m.Result)
	s := c.finish(c.verdictOf(result.StopReason))
	s.Usage = c.spent.answered(&result)
	return s
}
