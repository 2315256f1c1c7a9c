package codex

import (
	"encoding/json"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// The phases of an item.
const (
	started   = "started"
	completed = "completed"
)

// readItem reports an item in one of its phases. Most items are started, may be
// updated, and are completed. Some are only completed.
func (d *decoder) readItem(s *framework.Step, phase string, it *item) {
	switch it.Type {
	case "agent_message":
		if phase == completed {
			d.last = it.Text
			d.messages++
			d.add(s, transcript.Message(it.ID, it.Text))
		}
	case "reasoning":
		if phase == completed {
			d.add(s, transcript.Reasoning(it.ID, it.Text))
		}
	case "command_execution":
		d.command(s, phase, it)
	case "file_change":
		d.fileChange(s, phase, it)
	case "mcp_tool_call":
		d.mcpCall(s, phase, it)
	case "web_search":
		d.webSearch(s, phase, it)
	case "todo_list":
		d.plan(s, it)
	case "error":
		if phase == completed {
			d.add(s, transcript.Notice("warning", it.Message))
		}
	}
}

// add adds an event unless it is empty.
func (d *decoder) add(s *framework.Step, o stint.OutputData) {
	if o.Content != "" {
		s.Events = append(s.Events, o)
	}
}

// toolStatus returns the status of a completed tool call.
func (it *item) toolStatus() string {
	if it.Status == "failed" || it.Status == "declined" {
		return stint.ToolFailed
	}
	return stint.ToolCompleted
}

func (d *decoder) command(s *framework.Step, phase string, it *item) {
	tool := stint.ToolItem{ID: it.ID, Name: "shell", Category: "execute"}
	command := shown(it.Command)
	switch phase {
	case started:
		tool.Input, _ = json.Marshal(map[string]string{"command": command}) // strings can be encoded
		d.add(s, transcript.Call(tool))
	case completed:
		tool.Status = it.toolStatus()
		tool.ExitCode = it.ExitCode
		d.add(s, transcript.Result(tool, it.Output))
	}
}

// shown returns a command without the shell invocation that Codex puts before it,
// such as "bash -lc".
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

func (d *decoder) fileChange(s *framework.Step, phase string, it *item) {
	var changes []struct{ Path, Kind string }
	_ = json.Unmarshal(it.Changes, &changes) // if the changes have another form, none are listed
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.Kind + " " + c.Path
	}
	tool := stint.ToolItem{ID: it.ID, Name: "apply_patch", Category: "edit"}
	switch phase {
	case started:
		tool.Title, tool.Input = "apply_patch "+strings.Join(lines, ", "), compact(it.Changes)
		d.add(s, transcript.Call(tool))
	case completed:
		tool.Status = it.toolStatus()
		d.add(s, transcript.Result(tool, strings.Join(lines, "\n")))
	}
}

func (d *decoder) mcpCall(s *framework.Step, phase string, it *item) {
	tool := stint.ToolItem{ID: it.ID, Name: "mcp__" + it.Server + "__" + it.Tool}
	switch phase {
	case started:
		tool.Input = compact(it.Arguments)
		d.add(s, transcript.Call(tool))
	case completed:
		tool.Status = it.toolStatus()
		d.add(s, transcript.Result(tool, it.mcpResult()))
	}
}

// mcpResult returns the result of an MCP tool as text.
func (it *item) mcpResult() string {
	if it.Error.Message != "" {
		return it.Error.Message
	}
	var texts []string
	for _, part := range it.Result.Content {
		if part.Text == "" && part.Type != "" {
			part.Text = "[" + part.Type + "]"
		}
		texts = append(texts, part.Text)
	}
	return strings.Join(texts, "\n")
}

func (d *decoder) webSearch(s *framework.Step, phase string, it *item) {
	tool := stint.ToolItem{ID: it.ID, Name: "web_search", Category: "fetch"}
	switch phase {
	case started:
		tool.Title = strings.TrimSpace("web_search " + it.Query)
		d.add(s, transcript.Call(tool))
	case completed:
		d.add(s, transcript.Result(tool, it.Query))
	}
}

// plan reports the agent's plan (a list of steps).
func (d *decoder) plan(s *framework.Step, it *item) {
	if len(it.Items) == 0 {
		return
	}
	entries := make([]stint.PlanEntry, len(it.Items))
	for i, e := range it.Items {
		entries[i] = stint.PlanEntry{Content: e.Text, Status: "pending"}
		if e.Completed {
			entries[i].Status = "completed"
		}
	}
	d.add(s, transcript.Plan(entries))
}

// compact returns raw, or nil if raw is empty, null, or an empty object.
func compact(raw []byte) json.RawMessage {
	if s := string(raw); s == "" || s == "null" || s == "{}" {
		return nil
	}
	return raw
}
