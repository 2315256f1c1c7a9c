package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const saidLimit = 200 // maximum bytes of a tool's result in a final answer

// answer is the response of the model, independent of the dialect.
type answer struct {
	id     string // unique within the conversation and the server
	model  string
	at     time.Time
	think  string
	pieces []string // the text, split into the parts that a stream sends
	call   *call
	usage  usage
}

func (a answer) text() string { return strings.Join(a.pieces, "") }

// reply returns the response to p: the result of the next step of the script.
func reply(p prompt, s script, id string, now time.Time) answer {
	next := s.next(p)
	a := answer{id: id, model: p.model, at: now, think: next.think, usage: s.usage}
	c, err := next.call(p.tools)
	if c == nil && len(p.results) < len(s.steps) {
		c = s.structured(p)
	}
	switch {
	case err != nil:
		a.pieces = []string{"I cannot: " + err.Error()}
	case c != nil:
		c.id = id
		a.call, a.pieces = c, []string{"Working on it."}
	default:
		a.pieces = split(s.final(p), s.slow)
	}
	return a
}

// next returns the step that determines the response to p. Each tool result after the
// user's newest message stands for one step that has already been executed.
func (s script) next(p prompt) step { return s.steps[min(len(p.results), len(s.steps)-1)] }

// call returns the tool call of the step, or nil for the final answer. If the client
// did not declare the tool, it returns an error.
func (p step) call(tools []tool) (*call, error) {
	switch {
	case p.run != "":
		c, err := shell(tools, p.run)
		return &c, err
	case p.tool != "":
		t, err := named(tools, p.tool)
		return &call{tool: t, args: p.args}, err
	}
	return nil, nil
}

// structured returns a call of the tool StructuredOutput, with which Claude Code
// requests a JSON object. It returns nil if the client did not declare that tool, or if
// the text of [[say]] is not a JSON object.
func (s script) structured(p prompt) *call {
	i := slices.IndexFunc(p.tools, func(t tool) bool { return t.name == "StructuredOutput" })
	if i < 0 {
		return nil
	}
	c := &call{tool: p.tools[i]}
	if s.say == nil {
		c.args = c.tool.form.fill(nil)
		return c
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(*s.say), &fields) != nil {
		return nil
	}
	c.args = json.RawMessage(*s.say)
	return c
}

func (s script) final(p prompt) string {
	switch {
	case s.say != nil:
		return *s.say
	case p.asks != nil:
		data, _ := json.Marshal(p.asks.value(p.asks, maxDepth)) // cannot fail, because the values came from JSON
		return string(data)
	case len(p.results) > 0:
		return fmt.Sprintf("Done. user_turns=%d tool_said=%q", len(p.users), shorten(p.results[len(p.results)-1]))
	}
	return fmt.Sprintf("Hello. user_turns=%d tools=%d", len(p.users), len(p.tools))
}

func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= saidLimit {
		return text
	}
	end := saidLimit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// split splits a text into n pieces of about the same length. If the text has fewer than
// n characters, split returns one piece per character, but at least one piece.
func split(text string, n int) []string {
	runes := []rune(text)
	n = max(1, min(n, len(runes)))
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = string(runes[i*len(runes)/n : (i+1)*len(runes)/n])
	}
	return pieces
}
