package acp

import (
	"encoding/json"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxEntries is the longest plan that is shown, in steps.
const maxEntries = 256

// update takes a session/update; kind is what it is about. told says that an
// event has the very text of it.
func (c *client) update(params json.RawMessage) (s framework.Step, kind string, told bool) {
	raw := decode[struct {
		Update json.RawMessage `json:"update"`
	}](params).Update
	kind = decode[struct {
		Kind string `json:"sessionUpdate"`
	}](raw).Kind
	if c.loading {
		if kind == "usage_update" {
			c.spent.before(raw)
		}
		return s, kind, true // it was told when it happened
	}
	switch kind {
	case "agent_message_chunk":
		s.Events = c.text.say(stint.ItemMessage, raw)
		told = len(s.Events) > 0
	case "agent_thought_chunk":
		s.Events = c.text.say(stint.ItemReasoning, raw)
		told = len(s.Events) > 0
	case "tool_call", "tool_call_update":
		t := decode[toolUpdate](raw)
		s.Events = c.text.tool(&t, false)
	case "plan":
		s.Events = c.text.plan(decode[plan](raw))
	case "plan_update":
		s.Events = c.text.plan(decode[struct {
			Plan plan `json:"plan"`
		}](raw).Plan)
	case "usage_update":
		s.Usage = c.spent.updated(raw)
	}
	if kind == "" {
		kind = "session/update"
	}
	return s, kind, told
}

type plan struct {
	Entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"entries"`
}

// plan is the agent's list of steps, whole.
func (t *transcriber) plan(p plan) []stint.OutputData {
	if len(p.Entries) == 0 {
		return nil
	}
	entries := make([]stint.PlanEntry, 0, min(len(p.Entries), maxEntries))
	for _, e := range p.Entries[:min(len(p.Entries), maxEntries)] {
		if e.Status != "completed" && e.Status != "in_progress" {
			e.Status = "pending"
		}
		entries = append(entries, stint.PlanEntry{Content: e.Content, Status: e.Status})
	}
	return append(t.close(), transcript.Plan(entries))
}

// content is a block of content, of any kind.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	URI      string `json:"uri"`
	MimeType string `json:"mimeType"`
	Resource struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
	} `json:"resource"`
}

// shown is what a person sees of it.
func (c content) shown() string {
	switch {
	case c.Type == "resource_link":
		return c.URI
	case c.Type == "resource" && c.Resource.Text != "":
		return c.Resource.Text
	case c.Type == "resource":
		return c.Resource.URI
	case c.Type == "image" || c.Type == "audio":
		return "(" + c.Type + " " + c.MimeType + ")"
	}
	return c.Text
}
