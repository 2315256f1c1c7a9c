package claudecode

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/jsonlines"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// synthetic is the model name of messages that Claude Code itself wrote.
const synthetic = "<synthetic>"

// todoTool is the tool that maintains the plan.
const todoTool = "TodoWrite"

// block is a content block of a message.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

// assistant handles a message of the agent, or a part of one.
func (d *decoder) assistant(s *framework.Step) {
	parent := d.Line.Text("parent_tool_use_id")
	failed := d.Line.Text("error") != ""
	m := &d.event
	m.Read(d.Line.Raw("message"))
	id, model := m.Text("id"), m.Text("model")
	if model != synthetic && id != "" && d.answers[parent] != id {
		d.answers[parent] = id
		d.turns++
		d.calls[model]++
		s.Turns = d.turns
	}
	var blocks []block
	m.Decode("content", &blocks)
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
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

// whole reports a block, unless its pieces were reported before.
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

// call reports the start of a tool call. A call of the plan's tool becomes a
// plan.
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

// user handles the results of tools. The line contains each result twice; only
// the message is read.
func (d *decoder) user(s *framework.Step) {
	d.event.Read(d.Line.Raw("message"))
	for _, raw := range d.event.Elements("content") {
		d.part.Read(raw)
		if strings.HasSuffix(d.part.Text("type"), "tool_result") {
			d.toolResult(s)
		}
	}
}

// toolResult reports the result of one tool call.
func (d *decoder) toolResult(s *framework.Step) {
	id, failed := d.part.Text("tool_use_id"), string(d.part.Raw("is_error")) == "true"
	name := d.tools[id]
	delete(d.tools, id)
	if name == todoTool && !failed {
		return
	}
	text := resultText(&d.part)
	tool := stint.ToolItem{ID: id, Name: name}
	if failed {
		tool.Status, tool.ExitCode = stint.ToolFailed, exitCode(text)
	}
	d.add(s, transcript.Result(tool, text))
}

// resultText returns the content of a tool result: a text, or parts of which some
// are texts.
func resultText(result *jsonlines.Object) string {
	if text := result.Text("content"); text != "" {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if !result.Decode("content", &parts) {
		return ""
	}
	var texts []string
	for _, p := range parts {
		if p.Text == "" && p.Type != "" {
			p.Text = "[" + p.Type + "]"
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// exitCode parses the exit code in the text of a failed command.
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
