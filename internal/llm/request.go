// Package llm answers: how is a model asked?
//
// A Client asks over one of three dialects: Anthropic's Messages, OpenAI's
// Responses and OpenAI's Chat Completions, which most other servers speak too.
// What is asked and answered has one form for all of them, so that a
// conversation may go on with another provider than it began with.
package llm

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// Role says whose message it is.
type Role string

// The roles. What tools gave stands in messages of the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Kind says what a part of a message is.
type Kind string

// The kinds of parts.
const (
	Text       Kind = "text"
	Reasoning  Kind = "reasoning"
	ToolUse    Kind = "tool_use"
	ToolResult Kind = "tool_result"
)

// Part is a piece of a message.
type Part struct {
	Kind Kind `json:"kind"`
	// Text is what was said, thought, or given by a tool. For a tool's use it is
	// the input as it came where that is no JSON object.
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`    // of the tool's use; a result has that of its use
	Name  string          `json:"name,omitempty"`  // of the tool
	Input json.RawMessage `json:"input,omitempty"` // of the tool's use: a JSON object
	// Failed says that the tool did not do it.
	Failed bool `json:"failed,omitempty"`
	// Native is reasoning in the provider's form, signed or encrypted. It is given
	// back to the model that it is from, which Origin tells, and to no other.
	Native json.RawMessage `json:"native,omitempty"`
	Origin string          `json:"origin,omitempty"`
}

// Message is what one side said.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Tool is what the model may use. Schema is the JSON Schema of its input, an
// object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is what a model is asked.
type Request struct {
	Model        string
	Instructions string
	Messages     []Message // neighbours may have the same role
	Tools        []Tool
	// MaxTokens bounds the answer where the dialect wants a bound; 0 is 16384.
	MaxTokens int64
}

// Stop says why an answer ended.
type Stop string

// The ends of answers.
const (
	StopEnd     Stop = "end"     // it said all
	StopTools   Stop = "tools"   // it waits for tools
	StopLength  Stop = "length"  // it reached the bound of its length
	StopRefusal Stop = "refusal" // it, or a filter, refused
)

// Answer is what came of a request. Usage counts one call.
type Answer struct {
	Parts []Part
	Stop  Stop
	Usage stint.Tokens
}

// Text is what the answer says, without reasoning and tools.
func (a *Answer) Text() string {
	var text strings.Builder
	for _, p := range a.Parts {
		if p.Kind == Text {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// Event is something on the way to an answer: a piece of text or of reasoning
// as Kind says, or the announcement of another try.
type Event struct {
	Kind  Kind
	Text  string
	Retry *Retry // nil unless the request is asked again
}

// Retry tells that a request failed and is asked again. What came of the answer
// so far is void.
type Retry struct {
	Try   int // that failed, from 1
	Of    int
	Cause *Error
}

// merged joins neighbours of the same role.
func merged(messages []Message) []Message {
	var out []Message
	for _, m := range messages {
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1].Parts = append(slices.Clip(out[n-1].Parts), m.Parts...)
			continue
		}
		out = append(out, m)
	}
	return out
}

// use makes the part of a tool's use of what the model gave as its input.
func use(id, name, input string) Part {
	p := Part{Kind: ToolUse, ID: id, Name: name, Input: json.RawMessage("{}")}
	var object map[string]json.RawMessage
	switch {
	case input == "":
	case json.Unmarshal([]byte(input), &object) == nil && object != nil:
		p.Input = json.RawMessage(input)
	default:
		p.Text = input
	}
	return p
}
