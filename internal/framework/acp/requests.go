package acp

import (
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// serve answers a request of the agent. Every request except
// session/request_permission is refused.
func (c *client) serve(m *message) framework.Step {
	switch {
	case c.end != nil:
		return framework.Step{} // the agent's standard input is closed
	case !isAnswerable(m.ID):
		return framework.Step{Send: refusal([]byte("null"), codeInvalidRequest, "The ID of a request is a number or a short string.")}
	case m.Method == "session/request_permission":
		return c.permit(m)
	}
	return framework.Step{Send: refusal(m.ID, codeNoMethod, "Method not found: "+c.quote(m.Method))}
}

// permission has the parameters of a session/request_permission request.
type permission struct {
	Tool    toolUpdate `json:"toolCall"`
	Options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// option returns the ID of the option that permits the tool call. It prefers
// allow_once to allow_always, because some agents record the latter in a file in
// the workspace.
func (p *permission) option() (id string, ok bool) {
	for _, kind := range []string{"allow_once", "allow_always"} {
		for _, o := range p.Options {
			if o.Kind == kind {
				return o.ID, true
			}
		}
	}
	return "", false
}

// permit permits every tool call, because the sandbox limits the agent.
func (c *client) permit(m *message) framework.Step {
	p := decode[permission](m.Params)
	s := framework.Step{Events: c.text.tool(&p.Tool, true)}
	if c.isLoading {
		s.Events = nil
	}
	id, ok := p.option()
	if !ok {
		s.Events = append(s.Events, transcript.Notice("permission", "The agent asked for a permission but offered no option that grants it."))
		s.Send = answer(m.ID, map[string]any{"outcome": map[string]string{"outcome": "cancelled"}})
		return s
	}
	s.Send = answer(m.ID, map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": id}})
	return s
}
