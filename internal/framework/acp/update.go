package acp

import (
	"encoding/json"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxEntries is the maximum number of plan entries in an event. Further entries are
// dropped.
const maxEntries = 256

// update handles a session/update notification and returns its type as kind. If
// inEvent is true, the notification need not be recorded as a native line: either
// an event contains its whole text, or it belongs to the history of earlier runs,
// which the agent sends while it loads a session.
func (c *client) update(params json.RawMessage) (s framework.Step, kind string, inEvent bool) {
	raw := decode[struct {
		Update json.RawMessage `json:"update"`
	}](params).Update
	kind = decode[struct {
		Kind string `json:"sessionUpdate"`
	}](raw).Kind
	if c.isLoading { // the agent sends the history of the session
		if kind == "usage_update" {
			c.usage.setBaseline(raw)
		}
		return s, kind, true
	}
	switch kind {
	case "agent_message_chunk":
		s.Events = c.text.chunk(stint.ItemMessage, raw)
		inEvent = len(s.Events) > 0
	case "agent_thought_chunk":
		s.Events = c.text.chunk(stint.ItemReasoning, raw)
		inEvent = len(s.Events) > 0
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
		s.Usage = c.usage.update(raw)
	}
	if kind == "" {
		kind = "session/update"
	}
	return s, kind, inEvent
}

type plan struct {
	Entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"entries"`
}

// plan returns the events for a plan: those of close, which end the open text and report
// the remaining tool calls, and the plan. A plan without entries has no events.
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

// content is a content block of any type.
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

// shown returns the text that represents the block in events.
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
