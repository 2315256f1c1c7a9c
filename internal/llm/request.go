// Package llm sends requests to language models.
//
// A Client supports three APIs, called dialects: Anthropic's Messages, OpenAI's
// Responses, and OpenAI's Chat Completions, which most other servers support.
// Requests and answers have the same form for all dialects, so a conversation can
// continue with another provider.
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

// Kind is the kind of a Part.
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
	// Text is the text of a message, of reasoning, or of a tool result. In a tool
	// call it is the input if the model sent an input that is not a JSON object.
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`    // ID of the tool call
	Name  string          `json:"name,omitempty"`  // name of the tool
	Input json.RawMessage `json:"input,omitempty"` // input of the tool call, a JSON object
	// Failed is true in a tool result if the tool failed.
	Failed bool `json:"failed,omitempty"`
	// Native is reasoning in the provider's JSON form, signed or encrypted. It is
	// sent only to the provider and model that returned it, which Origin names.
	Native json.RawMessage `json:"native,omitempty"`
	Origin string          `json:"origin,omitempty"`
}

// Message is one message of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Tool is a tool that the model may call. Schema is the JSON Schema of the tool's input,
// which must be an object.
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
	// MaxTokens is the maximum length of the answer in tokens; 0 means 16384. Only
	// dialects that require a limit use it.
	MaxTokens int64
}

// Stop is the reason why an answer ended.
type Stop string

// The reasons.
const (
	StopEnd     Stop = "end"     // the answer is complete
	StopTools   Stop = "tools"   // the model called tools
	StopLength  Stop = "length"  // the answer reached its maximum length
	StopRefusal Stop = "refusal" // the model refused to answer, or a content filter stopped the answer
)

// Answer is the answer to a request. Usage contains the tokens of the answer, and one
// model call.
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

// Event is a piece of an answer (Kind and Text), or the announcement of a retry (Retry).
type Event struct {
	Kind  Kind
	Text  string
	Retry *Retry // nil for a piece of an answer
}

// Retry announces that a request failed and will be sent again. The pieces of the failed
// answer are not part of the answer.
type Retry struct {
	Try   int // number of the failed attempt, from 1
	Of    int // maximum number of attempts
	Cause *Error
}

// merged returns the messages with adjacent messages of the same role joined.
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

// use returns a tool call. An input that is not a JSON object is stored in Part.Text.
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
