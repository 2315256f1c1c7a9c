package codex

import (
	"encoding/json"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// The phases of an item.
const (
	started   = "started"
	completed = "completed"
)

// readItem reports an item. An item is started, may be updated, and is
// completed; some are only completed.
func (d *decoder) readItem(s *framework.Step, phase string) {
	id := d.item.Text("id")
	switch d.item.Text("type") {
	case "agent_message":
		if phase == completed {
			d.last = d.item.Text("text")
			d.messages++
			d.add(s, transcript.Message(id, d.last))
		}
	case "reasoning":
		if phase == completed {
			d.add(s, transcript.Reasoning(id, d.item.Text("text")))
		}
	case "command_execution":
		d.command(s, id, phase)
	case "file_change":
		d.fileChange(s, id, phase)
	case "mcp_tool_call":
		d.mcpCall(s, id, phase)
	case "web_search":
		d.webSearch(s, id, phase)
	case "todo_list":
		d.plan(s)
	case "error":
		if phase == completed {
			d.add(s, transcript.Notice("warning", d.item.Text("message")))
		}
	}
}

// add adds an event unless it is empty.
func (d *decoder) add(s *framework.Step, o stint.OutputData) {
	if o.Content != "" {
		s.Events = append(s.Events, o)
	}
}

func (d *decoder) status() string {
	switch d.item.Text("status") {
	case "failed", "declined":
		return stint.ToolFailed
	}
	return stint.ToolCompleted
}

func (d *decoder) command(s *framework.Step, id, phase string) {
	tool := stint.ToolItem{ID: id, Name: "shell", Category: "execute"}
	command := shown(d.item.Text("command"))
	switch phase {
	case started:
		tool.Input, _ = json.Marshal(map[string]string{"command": command}) // strings can be encoded
		d.add(s, transcript.Call(tool))
	case completed:
		tool.Status = d.status()
		var code int
		if d.item.Decode("exit_code", &code) && string(d.item.Raw("exit_code")) != "null" {
			tool.ExitCode = &code
		}
		d.add(s, transcript.Result(tool, d.item.Text("aggregated_output")))
	}
}

// shown returns a command without the shell that wraps it.
func shown(command string) string {
	for _, shell := range []string{"/bin/bash -lc ", "bash -lc ", "/bin/sh -c "} {
		inner, ok := strings.CutPrefix(command, shell)
		if !ok {
			continue
		}
		if n := len(inner); n >= 2 && (inner[0] == '\'' || inner[0] == '"') && inner[n-1] == inner[0] && strings.Count(inner, inner[:1]) == 2 {
			inner = inner[1 : n-1]
		}
		return inner
	}
	return command
}

func (d *decoder) fileChange(s *framework.Step, id, phase string) {
	var changes []struct{ Path, Kind string }
	d.item.Decode("changes", &changes)
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.Kind + " " + c.Path
	}
	tool := stint.ToolItem{ID: id, Name: "apply_patch", Category: "edit"}
	switch phase {
	case started:
		tool.Title, tool.Input = "apply_patch "+strings.Join(lines, ", "), compact(d.item.Raw("changes"))
		d.add(s, transcript.Call(tool))
	case completed:
		tool.Status = d.status()
		d.add(s, transcript.Result(tool, strings.Join(lines, "\n")))
	}
}

func (d *decoder) mcpCall(s *framework.Step, id, phase string) {
	tool := stint.ToolItem{ID: id, Name: "mcp__" + d.item.Text("server") + "__" + d.item.Text("tool")}
	switch phase {
	case started:
		tool.Input = compact(d.item.Raw("arguments"))
		d.add(s, transcript.Call(tool))
	case completed:
		tool.Status = d.status()
		d.add(s, transcript.Result(tool, d.mcpResult()))
	}
}

// mcpResult returns the result of an MCP tool as text.
func (d *decoder) mcpResult() string {
	var e struct{ Message string }
	if d.item.Decode("error", &e) && e.Message != "" {
		return e.Message
	}
	var result, part jsonlines.Object
	result.Read(d.item.Raw("result"))
	var texts []string
	for _, raw := range result.Elements("content") {
		part.Read(raw)
		text := part.Text("text")
		if kind := part.Text("type"); text == "" && kind != "" {
			text = "[" + kind + "]"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

func (d *decoder) webSearch(s *framework.Step, id, phase string) {
	tool := stint.ToolItem{ID: id, Name: "web_search", Category: "fetch"}
	query := d.item.Text("query")
	switch phase {
	case started:
		tool.Title = strings.TrimSpace("web_search " + query)
		d.add(s, transcript.Call(tool))
	case completed:
		d.add(s, transcript.Result(tool, query))
	}
}

// plan reports the agent's list of steps.
func (d *decoder) plan(s *framework.Step) {
	var items []struct {
		Text      string
		Completed bool
	}
	if !d.item.Decode("items", &items) || len(items) == 0 {
		return
	}
	entries := make([]stint.PlanEntry, len(items))
	for i, it := range items {
		entries[i] = stint.PlanEntry{Content: it.Text, Status: "pending"}
		if it.Completed {
			entries[i].Status = "completed"
		}
	}
	d.add(s, transcript.Plan(entries))
}

// compact returns raw, or nil if it is empty.
func compact(raw []byte) json.RawMessage {
	if s := string(raw); s == "" || s == "null" || s == "{}" {
		return nil
	}
	return raw
}
