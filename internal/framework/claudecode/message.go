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

// synthetic is the model of messages that no model wrote.
const synthetic = "<synthetic>"

// todoTool keeps the list of steps.
const todoTool = "TodoWrite"

// block is a part of a message.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

// assistant reads a message of the agent, or a part of one.
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
				d.tell(s, transcript.Notice("api_error", b.Text))
				continue
			}
			d.whole(s, parent, claim{id, stint.ItemMessage}, b.Text)
			if parent == "" {
				d.last = b.Text
			}
		case "thinking":
			d.whole(s, parent, claim{id, stint.ItemReasoning}, b.Thinking)
		case "tool_use", "server_tool_use", "mcp_tool_use":
			d.call(s, b)
		}
	}
}

// whole tells a block unless its pieces were told.
func (d *decoder) whole(s *framework.Step, parent string, c claim, text string) {
	if d.told(s, parent, c) || text == "" {
		return
	}
	if c.kind == stint.ItemReasoning {
		d.tell(s, transcript.Reasoning(c.id, text))
		return
	}
	d.tell(s, transcript.Message(c.id, text))
}

// call tells of a tool that begins. The list of steps is told as that.
func (d *decoder) call(s *framework.Step, b *block) {
	d.tools[b.ID] = b.Name
	if b.Name == todoTool {
		var list struct{ Todos []stint.PlanEntry }
		if json.Unmarshal(b.Input, &list) == nil && len(list.Todos) > 0 {
			d.tell(s, transcript.Plan(list.Todos))
			return
		}
	}
	d.tell(s, transcript.Call(stint.ToolItem{ID: b.ID, Name: b.Name, Input: b.Input}))
}

// user reads what tools gave. What they gave stands in the line twice; it is
// read once.
func (d *decoder) user(s *framework.Step) {
	d.event.Read(d.Line.Raw("message"))
	for _, raw := range d.event.Elements("content") {
		d.part.Read(raw)
		if strings.HasSuffix(d.part.Text("type"), "tool_result") {
			d.toolResult(s)
		}
	}
}

// toolResult reads what one tool gave.
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
	d.tell(s, transcript.Result(tool, text))
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

// exitCode is what a failed command ended with, as its text tells.
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
