// Package llm sends requests to language models.
//
// A Client supports three APIs, called dialects: Anthropic's Messages, OpenAI's
// Responses, and OpenAI's Chat Completions, which most other servers support.
// Requests and answers have one form for all, so a conversation can continue
// with another provider.
package llm

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// Role is the author of a message.
type Role string

// The roles. Tool results are in messages of the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Kind is the kind of a part.
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
	// Text is the text of a message, of reasoning, or of a tool result. In a
	// tool call it is the input, if that is not a JSON object.
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`    // of the tool call
	Name  string          `json:"name,omitempty"`  // of the tool
	Input json.RawMessage `json:"input,omitempty"` // of the tool call: a JSON object
	// Failed says that the tool failed.
	Failed bool `json:"failed,omitempty"`
	// Native is reasoning in the provider's form, signed or encrypted. It is
	// sent back only to the model in Origin.
	Native json.RawMessage `json:"native,omitempty"`
	Origin string          `json:"origin,omitempty"`
}

// Message is one message of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Tool is a tool that the model may call. Schema is the JSON Schema of its
// input, an object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is a request to a model.
type Request struct {
	Model        string
	Instructions string
	Messages     []Message // adjacent messages may have the same role
	Tools        []Tool
	// MaxTokens limits the answer if the dialect requires a limit; 0 means
	// 16384.
	MaxTokens int64
}

// Stop is the reason why an answer ended.
type Stop string

// The reasons.
const (
	StopEnd     Stop = "end"     // the answer is complete
	StopTools   Stop = "tools"   // the model called tools
	StopLength  Stop = "length"  // the answer reached its maximum length
	StopRefusal Stop = "refusal" // the model or a filter refused
)

// Answer is the answer to a request. Usage counts one call.
type Answer struct {
	Parts []Part
	Stop  Stop
	Usage stint.Tokens
}

// Text returns the text of the answer, without reasoning and tool calls.
func (a *Answer) Text() string {
	var text strings.Builder
	for _, p := range a.Parts {
		if p.Kind == Text {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// Event is a piece of an answer that is arriving, or the announcement of a
// retry.
type Event struct {
	Kind  Kind
	Text  string
	Retry *Retry // nil for text
}

// Retry announces that a request failed and is sent again. Earlier events of
// the answer are void.
type Retry struct {
	Try   int // the failed attempt, from 1
	Of    int
	Cause *Error
}

// merged joins adjacent messages with the same role.
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

// use returns a tool call. An input that is not a JSON object is kept as text.
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
