// Package transcript converts an agent's steps into events with readable text.
//
// The contents of all output events of a run form its transcript: messages, one
// line for each tool call, and the output of tools, each with a line end. The item
// of an event has the same information in structured form, for programs.
package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// MaxResult is the maximum length of a tool output in an event, in bytes. The
// agent's log contains the whole output if the agent reports it.
const MaxResult = 16 << 10

// maxTitle is the maximum length of the title of a tool call, in runes.
const maxTitle = 200

// maxInput is the maximum size of a tool input in an item, in bytes. Larger inputs
// are left out.
const maxInput = 64 << 10

// Message returns the event for a whole message.
func Message(id, text string) stint.OutputData { return whole(stint.ItemMessage, id, text) }

// Reasoning returns the event for a whole block of reasoning.
func Reasoning(id, text string) stint.OutputData { return whole(stint.ItemReasoning, id, text) }

func whole(kind stint.ItemKind, id, text string) stint.OutputData {
	return stint.OutputData{Content: ended(clean(text)), Item: &stint.Item{Kind: kind, MessageID: id}}
}

// Delta returns the event for a piece of a message or of reasoning. After the last
// piece, EndDelta ends the text.
func Delta(kind stint.ItemKind, id, text string) stint.OutputData {
	return stint.OutputData{Content: clean(text), Item: &stint.Item{Kind: kind, MessageID: id, Delta: true}}
}

// EndDelta returns the event with the line end after the pieces of a message or of
// reasoning. last is the last piece. If last is empty or ends with a line end, no
// event is needed and ok is false.
func EndDelta(kind stint.ItemKind, id, last string) (o stint.OutputData, ok bool) {
	if last == "" || strings.HasSuffix(last, "\n") {
		return o, false
	}
	return Delta(kind, id, "\n"), true
}

// Call returns the event for the start of a tool call. A missing title or category
// is derived from the tool's name and input.
func Call(t stint.ToolItem) stint.OutputData {
	if t.Title == "" {
		t.Title = Title(t.Name, t.Input)
	}
	t.Title = clean(t.Title)
	t.Input = input(t.Input)
	if t.Category == "" {
		t.Category = Category(t.Name)
	}
	if t.Status == "" {
		t.Status = stint.ToolInProgress
	}
	return stint.OutputData{Content: ended(t.Title), Item: &stint.Item{Kind: stint.ItemToolCall, Tool: &t}}
}

// Result returns the event for the end of a tool call. The default status is
// stint.ToolCompleted.
func Result(t stint.ToolItem, output string) stint.OutputData {
	if t.Status == "" {
		t.Status = stint.ToolCompleted
	}
	t.Input = nil
	text := clean(output)
	if text == "" {
		text = "(no output)"
	}
	return stint.OutputData{Content: ended(text), Item: &stint.Item{Kind: stint.ItemToolResult, Tool: &t}}
}

// Fit limits the text of a tool event: it cuts the title of a call, and the middle
// of a result. Secrets must already be masked, because a secret that was cut could
// not be found. Fit returns other events unchanged.
func Fit(o stint.OutputData) stint.OutputData {
	if o.Item == nil || o.Item.Tool == nil {
		return o
	}
	i, t := *o.Item, *o.Item.Tool
	t.Title = clip(t.Title, maxTitle)
	switch i.Kind {
	case stint.ItemToolCall:
		o.Content = ended(t.Title)
	case stint.ItemToolResult:
		text, cut := Shorten(o.Content, MaxResult+len("\n"))
		o.Content, t.Truncated = ended(text), t.Truncated || cut
	}
	i.Tool = &t
	o.Item = &i
	return o
}

// Plan returns the event for the agent's plan (a list of steps).
func Plan(entries []stint.PlanEntry) stint.OutputData {
	marks := map[string]string{"completed": "x", "in_progress": "~"}
	var b strings.Builder
	for i := range entries {
		entries[i].Content = clean(entries[i].Content)
		mark := marks[entries[i].Status]
		if mark == "" {
			mark = " "
		}
		fmt.Fprintf(&b, "[%s] %s\n", mark, entries[i].Content)
	}
	return stint.OutputData{Content: b.String(), Item: &stint.Item{Kind: stint.ItemPlan, Entries: entries}}
}

// Notice returns an event about the progress of the run, such as a retry or a
// warning.
func Notice(code, text string) stint.OutputData {
	return stint.OutputData{Content: ended(clean(text)), Item: &stint.Item{Kind: stint.ItemNotice, Code: code}}
}

// Title returns one line that describes a tool call: a dollar sign and the command
// in the input, or the tool's name and the main argument in the input, or the name.
func Title(name string, raw json.RawMessage) string {
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields) // if raw is not an object, fields is empty
	for _, key := range []string{"command", "cmd", "script"} {
		switch v := fields[key].(type) {
		case string:
			return "$ " + firstLine(v)
		case []any:
			words := make([]string, len(v))
			for i, w := range v {
				words[i] = fmt.Sprint(w)
			}
			return "$ " + firstLine(strings.Join(words, " "))
		}
	}
	for _, key := range []string{"file_path", "path", "notebook_path", "pattern", "query", "url", "description"} {
		if v, ok := fields[key].(string); ok && v != "" {
			return name + " " + firstLine(v)
		}
	}
	return name
}

// Category returns the likely category of a tool with this name, or "other".
func Category(name string) string {
	if at := strings.LastIndex(name, "__"); at >= 0 {
		name = name[at+2:] // removes the prefix mcp__SERVER__ of an MCP tool
	}
	name = strings.ToLower(name)
	for _, c := range []struct{ part, category string }{
		{"bash", "execute"},
		{"shell", "execute"},
		{"exec", "execute"},
		{"command", "execute"},
		{"stdin", "execute"},
		{"notebookedit", "edit"},
		{"write", "edit"},
		{"edit", "edit"},
		{"patch", "edit"},
		{"delete", "delete"},
		{"move", "move"},
		{"websearch", "fetch"},
		{"fetch", "fetch"},
		{"web", "fetch"},
		{"grep", "search"},
		{"glob", "search"},
		{"search", "search"},
		{"find", "search"},
		{"read", "read"},
		{"list", "read"},
		{"ls", "read"},
		{"view", "read"},
		{"cat", "read"},
		{"todo", "think"},
		{"plan", "think"},
		{"think", "think"},
		{"task", "think"},
	} {
		if strings.Contains(name, c.part) {
			return c.category
		}
	}
	return "other"
}

// Shorten returns text unchanged if it has at most limit bytes. Otherwise it
// returns the first three quarters and the last quarter of limit bytes, with the
// number of omitted bytes between them, and cut is true.
func Shorten(text string, limit int) (short string, cut bool) {
	if len(text) <= limit {
		return text, false
	}
	head, tail := text[:limit*3/4], text[len(text)-limit/4:]
	for len(head) > 0 && !utf8.RuneStart(text[len(head)]) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", head, len(text)-len(head)-len(tail), tail), true
}

func input(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxInput || !json.Valid(raw) {
		return nil
	}
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // raw is valid
	return b.Bytes()
}

func firstLine(s string) string {
	s = strings.TrimSpace(s)
	line, rest, more := strings.Cut(s, "\n")
	if more && strings.TrimSpace(rest) != "" {
		line += " …"
	}
	return line
}

func clip(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}

func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func ended(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}
