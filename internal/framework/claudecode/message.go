package claudecode

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// synthetic is the model name of messages that Claude Code itself wrote.
const synthetic = "<synthetic>"

// todoTool is the tool with which the agent updates its plan (a list of tasks).
const todoTool = "TodoWrite"

// assistant handles a message of the agent, or a part of one.
func (d *decoder) assistant(s *framework.Step, l *line) {
	parent, failed := l.Parent, l.Error != ""
	id, model := l.Message.ID, l.Message.Model
	if model != synthetic && id != "" && d.answers[parent] != id {
		d.answers[parent] = id
		d.turns++
		d.calls[model]++
		s.Turns = d.turns
	}
	for i := range l.Message.Content {
		switch b := &l.Message.Content[i]; b.Type {
		case "text":
			if failed {
				d.add(s, transcript.Notice("api_error", b.Text))
				continue
			}
			d.whole(s, parent, blockKey{id, stint.ItemMessage}, b.Text)
			if parent == "" {
				d.last = b.Text
			}
		case "thinking":
			d.whole(s, parent, blockKey{id, stint.ItemReasoning}, b.Thinking)
		case "tool_use", "server_tool_use", "mcp_tool_use":
			d.call(s, b)
		}
	}
}

// whole reports a complete block, unless it was already reported in pieces.
func (d *decoder) whole(s *framework.Step, parent string, c blockKey, text string) {
	if d.endIfReported(s, parent, c) || text == "" {
		return
	}
	if c.kind == stint.ItemReasoning {
		d.add(s, transcript.Reasoning(c.id, text))
		return
	}
	d.add(s, transcript.Message(c.id, text))
}

// call reports the start of a tool call. A call of todoTool is reported as a plan.
func (d *decoder) call(s *framework.Step, b *block) {
	d.tools[b.ID] = b.Name
	if b.Name == todoTool {
		var list struct{ Todos []stint.PlanEntry }
		if json.Unmarshal(b.Input, &list) == nil && len(list.Todos) > 0 {
			d.add(s, transcript.Plan(list.Todos))
			return
		}
	}
	d.add(s, transcript.Call(stint.ToolItem{ID: b.ID, Name: b.Name, Input: b.Input}))
}

// user handles a line of type user, which contains the results of tools. The line
// contains each result twice; user reads only the copy in the message.
func (d *decoder) user(s *framework.Step, l *line) {
	for i := range l.Message.Content {
		if b := &l.Message.Content[i]; strings.HasSuffix(b.Type, "tool_result") {
			d.toolResult(s, b)
		}
	}
}

// toolResult reports the result of one tool call. It omits the successful result of
// todoTool.
func (d *decoder) toolResult(s *framework.Step, b *block) {
	name := d.tools[b.ToolUseID]
	delete(d.tools, b.ToolUseID)
	if name == todoTool && !b.IsError {
		return
	}
	text := string(b.Content)
	tool := stint.ToolItem{ID: b.ToolUseID, Name: name}
	if b.IsError {
		tool.Status, tool.ExitCode = stint.ToolFailed, exitCode(text)
	}
	d.add(s, transcript.Result(tool, text))
}

// exitCode returns the exit code in the first line of the output of a failed
// command, or nil if that line contains none.
func exitCode(text string) *int {
	rest, ok := strings.CutPrefix(text, "Exit code ")
	if !ok {
		return nil
	}
	word, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(word))
	if err != nil {
		return nil
	}
	return &n
}
