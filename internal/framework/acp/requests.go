package acp

import (
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// serve answers a request of the agent, with one line at most.
func (c *client) serve(m *message) framework.Step {
	switch {
	case c.end != nil:
		return framework.Step{} // nobody reads any more
	case !answerable(m.ID):
		return framework.Step{Send: refusal([]byte("null"), codeInvalidRequest, "The ID of a request is a number or a short string.")}
	case m.Method == "session/request_permission":
		return c.permit(m)
	}
	return framework.Step{Send: refusal(m.ID, codeNoMethod, "Method not found: "+c.short(m.Method))}
}

// permission is what the agent wants to be allowed.
type permission struct {
	Tool    toolUpdate `json:"toolCall"`
	Options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// option is the way to say yes. Once comes before always: some agents write what
// is always allowed into the workspace, where it is no work of theirs.
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

// permit allows everything: what the agent may do is bounded by its sandbox.
func (c *client) permit(m *message) framework.Step {
	p := decode[permission](m.Params)
	s := framework.Step{Events: c.text.tool(&p.Tool, true)}
	if c.loading {
		s.Events = nil
	}
	id, ok := p.option()
	if !ok {
		s.Events = append(s.Events, transcript.Notice("permission", "The agent asked for permission without offering a way to give it, and does without."))
		s.Send = answer(m.ID, map[string]any{"outcome": map[string]string{"outcome": "cancelled"}})
		return s
	}
	s.Send = answer(m.ID, map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": id}})
	return s
}
