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

// maxTools is how many uses of tools are remembered.
const maxTools = 1 << 12

// toolUpdate is what the agent says of the use of a tool: all of it at first,
// later what changed.
type toolUpdate struct {
	Update  string                     `json:"sessionUpdate"` // tool_call is the first; none with a permission
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

// tool is a use of a tool as far as it is known.
type tool struct {
	item  stint.ToolItem
	told  bool // its beginning was
	done  bool // and its end
	diffs []string
}

// tool takes what is said of a tool. The beginning is told once, and as late as
// something is known of the input: many agents name a tool before they know what
// it is to do. asked says that the agent wants permission for it.
func (t *transcriber) tool(u *toolUpdate, asked bool) []stint.OutputData {
	use := t.use(u)
	if use == nil || use.done {
		return nil
	}
	use.learn(u)
	ends := u.Status == "completed" || u.Status == "failed"
	var out []stint.OutputData
	if !use.told && (asked || ends || u.Status == "in_progress" || use.telling(u)) {
		out = append(t.hush(), use.call())
	}
	if ends {
		out = append(append(out, t.hush()...), use.result(u))
	}
	return out
}

// telling reports whether the input is all that it will be: it is more than it
// was at first, or says by itself what is about to happen.
func (t *tool) telling(u *toolUpdate) bool {
	return len(t.item.Input) > 0 && (u.Update != "tool_call" || transcript.Title("", t.item.Input) != "")
}

// use finds a tool's use, or begins one.
func (t *transcriber) use(u *toolUpdate) *tool {
	if use, ok := t.tools[u.ID]; ok {
		return use
	}
	if u.ID == "" || u.Title == "" && u.Kind == "" && u.Status == "" && len(u.Input) == 0 {
		return nil // nothing is known of it, and nothing is said
	}
	if len(t.order) >= maxTools {
		delete(t.tools, t.order[0])
		t.order = t.order[1:]
	}
	use := &tool{item: stint.ToolItem{ID: u.ID}}
	t.tools[u.ID], t.order = use, append(t.order, u.ID)
	return use
}

// learn takes what an update says beyond what was known.
func (t *tool) learn(u *toolUpdate) {
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
			diffs = append(diffs, unified(c.Path, c.OldText, c.NewText))
		}
	}
	if diffs != nil {
		t.diffs = diffs // an update's content stands for what was there
	}
}

// category is a kind of the protocol as items have it.
func category(kind string) string {
	if kind == "" || slices.Contains(stint.ToolCategories, kind) {
		return kind
	}
	return "other"
}

// name is the tool's own name, for which the protocol has no place: agents put
// it among what is theirs.
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

// call tells the beginning.
func (t *tool) call() stint.OutputData {
	t.told = true
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

// result tells the end.
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
	t.item.Input, t.diffs = nil, nil // what is over needs no memory
	return transcript.Result(item, strings.Join(parts, "\n"))
}

// output is the text that a tool gave, and its exit code where that is told.
func output(u *toolUpdate) (text string, exit *int) {
	var parts []string
	for _, c := range u.Content {
		if shown := c.Content.shown(); c.Type == "content" && shown != "" {
			parts = append(parts, unfenced(shown))
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

// exitLine reads the exit code that some agents put before what a failed command
// wrote.
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

// rawOutput is what some agents' tools give, in the shapes that were seen.
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

// text is the output as text: a string, blocks of content, the member of an
// object that holds it, or else the JSON.
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

// unfenced is the inside of a text that is one block of code.
func unfenced(s string) string {
	open, rest, ok := strings.Cut(s, "\n")
	body, closed := strings.CutSuffix(strings.TrimRight(rest, "\n"), "\n```")
	if ok && closed && strings.HasPrefix(open, "```") && !strings.Contains(body, "\n```") {
		return body
	}
	return s
}
