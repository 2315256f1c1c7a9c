package acp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// maxTools is the maximum number of tool calls that a transcriber keeps. The oldest
// are removed first.
const maxTools = 1 << 12

// toolUpdate is an update of a tool call. The first update contains everything that
// is known about the call; later updates contain only changes.
type toolUpdate struct {
	Update  string                     `json:"sessionUpdate"` // "tool_call" in the first update; empty in a permission request
	ID      string                     `json:"toolCallId"`
	Title   string                     `json:"title"`
	Kind    string                     `json:"kind"`
	Status  string                     `json:"status"`
	Content []toolContent              `json:"content"`
	Input   json.RawMessage            `json:"rawInput"`
	Output  json.RawMessage            `json:"rawOutput"`
	Meta    map[string]json.RawMessage `json:"_meta"`
}

type toolContent struct {
	Type    string  `json:"type"` // content, diff or terminal
	Content content `json:"content"`
	Path    string  `json:"path"`
	OldText string  `json:"oldText"`
	NewText string  `json:"newText"`
}

// tool is the state of a tool call.
type tool struct {
	item     stint.ToolItem
	reported bool // the event for the start of the call was returned
	done     bool // the event for the end of the call was returned
	diffs    []string
}

// tool returns the events for an update of a tool call. Many agents announce a call
// before they know its input. Therefore the start of the call is reported once, as
// soon as its input is final, a permission is requested, or the tool runs. asked is
// true for a permission request.
func (t *transcriber) tool(u *toolUpdate, asked bool) []stint.OutputData {
	use := t.use(u)
	if use == nil || use.done {
		return nil
	}
	use.merge(u)
	ends := u.Status == "completed" || u.Status == "failed"
	var out []stint.OutputData
	if !use.reported && (asked || ends || u.Status == "in_progress" || use.hasFinalInput(u)) {
		out = append(t.endText(), use.call())
	}
	if ends {
		out = append(append(out, t.endText()...), use.result(u))
	}
	return out
}

// hasFinalInput reports whether the input of the tool call is final: u is not the
// first update, or a title can be derived from the input.
func (t *tool) hasFinalInput(u *toolUpdate) bool {
	return len(t.item.Input) > 0 && (u.Update != "tool_call" || transcript.Title("", t.item.Input) != "")
}

// use returns the state of the tool call that u updates, and creates it if
// necessary. It returns nil if the call is unknown and u has no ID or no content.
func (t *transcriber) use(u *toolUpdate) *tool {
	if use, ok := t.tools[u.ID]; ok {
		return use
	}
	if u.ID == "" || u.Title == "" && u.Kind == "" && u.Status == "" && len(u.Input) == 0 {
		return nil // the update has no ID or no content
	}
	if len(t.order) >= maxTools {
		delete(t.tools, t.order[0])
		t.order = t.order[1:]
	}
	use := &tool{item: stint.ToolItem{ID: u.ID}}
	t.tools[u.ID], t.order = use, append(t.order, u.ID)
	return use
}

// merge merges an update into the state of the tool call.
func (t *tool) merge(u *toolUpdate) {
	for _, set := range []struct {
		to    *string
		value string
	}{{&t.item.Title, u.Title}, {&t.item.Name, u.name()}, {&t.item.Category, category(u.Kind)}} {
		if set.value != "" {
			*set.to = set.value
		}
	}
	if input := bytes.TrimSpace(u.Input); len(input) > 0 && !slices.Contains([]string{"null", "{}", `""`}, string(input)) {
		t.item.Input = u.Input
	}
	var diffs []string
	for _, c := range u.Content {
		if c.Type == "diff" {
			diffs = append(diffs, unifiedDiff(c.Path, c.OldText, c.NewText))
		}
	}
	if diffs != nil {
		t.diffs = diffs // the content of an update replaces the earlier content
	}
}

// category returns the tool category of an item for a tool kind of the protocol.
func category(kind string) string {
	if kind == "" || slices.Contains(stint.ToolCategories, kind) {
		return kind
	}
	return "other"
}

// name returns the tool's name. The protocol has no member for the name; some
// agents send it in _meta.
func (u *toolUpdate) name() string {
	for _, raw := range u.Meta {
		if name := decode[struct {
			Tool string `json:"toolName"`
		}](raw).Tool; name != "" {
			return name
		}
	}
	return ""
}

// call returns the event for the start of the tool call.
func (t *tool) call() stint.OutputData {
	t.reported = true
	item := t.item
	item.Status = stint.ToolInProgress
	if title := transcript.Title("", item.Input); strings.HasPrefix(title, "$ ") {
		item.Title = title
	}
	if item.Title == "" && item.Name == "" {
		item.Title = "tool"
	}
	return transcript.Call(item)
}

// result returns the event for the end of the tool call.
func (t *tool) result(u *toolUpdate) stint.OutputData {
	t.done = true
	text, exit := output(u)
	if exit == nil && u.Status == "failed" {
		exit = exitLine(text)
	}
	parts := slices.Clone(t.diffs)
	if text != "" {
		parts = append(parts, text)
	}
	item := stint.ToolItem{
		ID: t.item.ID, Name: t.item.Name, Category: t.item.Category, Status: u.Status, ExitCode: exit,
	}
	t.item.Input, t.diffs = nil, nil // release memory
	return transcript.Result(item, strings.Join(parts, "\n"))
}

// output returns the text of a tool's output, and the exit code, or nil if it is
// not known.
func output(u *toolUpdate) (text string, exit *int) {
	var parts []string
	for _, c := range u.Content {
		if shown := c.Content.shown(); c.Type == "content" && shown != "" {
			parts = append(parts, withoutFence(shown))
		}
	}
	raw := decode[rawOutput](u.Output)
	exit = raw.exitCode()
	if exit == nil {
		exit = decode[rawOutput](u.Meta["terminal_exit"]).exitCode()
	}
	if parts == nil {
		return raw.text(u.Output), exit
	}
	return strings.Join(parts, "\n"), exit
}

// exitLine returns the exit code that some agents write in a line before the output
// of a failed command, or nil if text does not start with such a line.
func exitLine(text string) *int {
	first, _, _ := strings.Cut(text, "\n")
	digits, ok := strings.CutPrefix(first, "Exit code ")
	code, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil {
		return nil
	}
	exit := int(code)
	return &exit
}

// rawOutput is the output of a tool, in the forms that known agents use.
type rawOutput struct {
	Output   string `json:"output"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Error    string `json:"error"`
	Exit1    *int   `json:"exitCode"`
	Exit2    *int   `json:"exit_code"`
	Exit3    *int   `json:"return_code"`
	Metadata struct {
		Exit *int `json:"exit"`
	} `json:"metadata"`
}

func (r rawOutput) exitCode() *int {
	for _, code := range []*int{r.Exit1, r.Exit2, r.Exit3, r.Metadata.Exit} {
		if code != nil {
			return code
		}
	}
	return nil
}

// text returns the output as text. raw is the JSON of r. If it is a string, an
// object with a known member, or a list of content blocks, text returns that
// content; otherwise it returns the JSON itself.
func (r rawOutput) text(raw json.RawMessage) string {
	for _, s := range []string{decode[string](raw), r.Output, r.Stdout + r.Stderr, r.Error} {
		if s != "" {
			return s
		}
	}
	var parts []string
	for _, c := range decode[[]content](raw) {
		if shown := c.shown(); shown != "" {
			parts = append(parts, shown)
		}
	}
	if parts != nil {
		return strings.Join(parts, "\n")
	}
	if s := string(raw); s != "null" && s != `""` && s != "{}" && s != "[]" {
		return s
	}
	return ""
}

// withoutFence returns the content of the code block if s is a single Markdown code
// block; otherwise it returns s.
func withoutFence(s string) string {
	open, rest, ok := strings.Cut(s, "\n")
	body, closed := strings.CutSuffix(strings.TrimRight(rest, "\n"), "\n```")
	if ok && closed && strings.HasPrefix(open, "```") && !strings.Contains(body, "\n```") {
		return body
	}
	return s
}
