package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// chat is the dialect of OpenAI's Chat Completions API. It also accepts the deviations
// of other servers that implement this API.
type chat struct {
	uncounted bool // the server does not support stream_options
}

func (d *chat) path() string { return "/chat/completions" }

func (d *chat) header(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// relax removes stream_options, which requests the token counts, from future requests if
// the server refused it.
func (d *chat) relax(e *Error) bool {
	if d.uncounted || e.Status/100 != 4 || !strings.Contains(e.Message, "stream_options") && !strings.Contains(e.Message, "include_usage") {
		return false
	}
	d.uncounted = true
	return true
}

type (
	chatBody struct {
		Model    string        `json:"model"`
		Messages []chatMessage `json:"messages"`
		Tools    []chatTool    `json:"tools,omitempty"`
		Stream   bool          `json:"stream"`
		Options  *chatOptions  `json:"stream_options,omitempty"`
	}
	chatOptions struct {
		Usage bool `json:"include_usage"`
	}
	chatMessage struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content"` // null if there are only tool calls
		ToolCalls  []chatCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
	}
	chatCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	chatTool struct {
		Type     string       `json:"type"`
		Function chatToolSpec `json:"function"`
	}
	chatToolSpec struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

func (d *chat) body(r Request) any {
	b := chatBody{Model: r.Model, Stream: true, Messages: []chatMessage{}}
	if !d.uncounted {
		b.Options = &chatOptions{true}
	}
	if r.Instructions != "" {
		b.Messages = append(b.Messages, chatMessage{Role: "system", Content: &r.Instructions})
	}
	for _, t := range r.Tools {
		b.Tools = append(b.Tools, chatTool{"function", chatToolSpec{t.Name, t.Description, t.Schema}})
	}
	for _, m := range merged(r.Messages) {
		b.Messages = append(b.Messages, d.messages(m)...)
	}
	return b
}

// messages converts a message to the form of the API. Each tool result becomes a
// separate message.
func (d *chat) messages(m Message) (out []chatMessage) {
	said := chatMessage{Role: string(m.Role)}
	var text []string
	for _, p := range m.Parts {
		switch p.Kind {
		case Text:
			text = append(text, p.Text)
		case ToolUse:
			said.ToolCalls = append(said.ToolCalls, chatCall{p.ID, "function", chatFunction{p.Name, string(p.Input)}})
		case ToolResult:
			content := resultText(p)
			out = append(out, chatMessage{Role: "tool", Content: &content, ToolCallID: p.ID})
		}
	}
	if len(text) > 0 {
		joined := strings.Join(text, "\n\n")
		said.Content = &joined
	}
	if said.Content != nil || said.ToolCalls != nil {
		out = append(out, said)
	}
	return out
}

func (d *chat) reader(_ Request, on func(Event)) reader {
	return &chatReader{on: on}
}

type chatReader struct {
	on           func(Event)
	text, reason strings.Builder
	calls        []*openCall
	stop         string
	usage        *chatUsage
}

// openCall is a tool call that is being received.
type openCall struct {
	index    int
	id, name string
	input    strings.Builder
}

type chatUsage struct {
	Input   int64 `json:"prompt_tokens"`
	Output  int64 `json:"completion_tokens"`
	Details struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type chatPiece struct {
	Content    any    `json:"content"` // a string, or null
	Refusal    string `json:"refusal"`
	Reasoning  any    `json:"reasoning"` // a string on some servers
	Reasoning2 string `json:"reasoning_content"`
	Calls      []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"` // a string; an object on some servers
		} `json:"function"`
	} `json:"tool_calls"`
}

func (a *chatReader) event(data []byte) (last bool, err error) {
	if string(data) == "[DONE]" {
		if a.stop == "" {
			a.stop = "stop" // some servers do not send a finish_reason
		}
		return true, nil
	}
	var e struct {
		Choices []struct {
			Delta   *chatPiece `json:"delta"`
			Message *chatPiece `json:"message"`
			Finish  string     `json:"finish_reason"`
		} `json:"choices"`
		Usage *chatUsage      `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, unreadable(err)
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		f := failure(data)
		return true, streamed(f.Code, f.Message)
	}
	if e.Usage != nil {
		a.usage = e.Usage
	}
	if len(e.Choices) == 0 {
		return false, nil
	}
	choice := e.Choices[0]
	for _, p := range []*chatPiece{choice.Delta, choice.Message} {
		if p != nil {
			a.add(p)
		}
	}
	if choice.Finish != "" {
		a.stop = choice.Finish
	}
	return false, nil
}

func (a *chatReader) whole(data []byte) error {
	_, err := a.event(data)
	return err
}

func (a *chatReader) add(p *chatPiece) {
	thought, _ := p.Reasoning.(string)
	if p.Reasoning2 != "" {
		thought = p.Reasoning2
	}
	if thought != "" {
		a.reason.WriteString(thought)
		a.on(Event{Kind: Reasoning, Text: thought})
	}
	said, _ := p.Content.(string)
	if said += p.Refusal; said != "" {
		a.text.WriteString(said)
		a.on(Event{Kind: Text, Text: said})
	}
	for _, c := range p.Calls {
		a.call(c.Index, c.ID, c.Function.Name, c.Function.Arguments)
	}
}

// call adds a piece of a tool call. If the server sends no indices, a piece with a name
// starts a new call.
func (a *chatReader) call(index *int, id, name string, arguments json.RawMessage) {
	var open *openCall
	switch at := len(a.calls) - 1; {
	case index != nil:
		if i := slices.IndexFunc(a.calls, func(c *openCall) bool { return c.index == *index }); i >= 0 {
			open = a.calls[i]
		}
	case name == "" && at >= 0:
		open = a.calls[at]
	}
	if open == nil {
		open = &openCall{index: -1 - len(a.calls)}
		if index != nil {
			open.index = *index
		}
		a.calls = append(a.calls, open)
	}
	open.id, open.name = cmp.Or(open.id, id), cmp.Or(open.name, name)
	var text string
	if json.Unmarshal(arguments, &text) != nil {
		text = string(arguments)
	}
	open.input.WriteString(text)
}

func (a *chatReader) answer() (Answer, error) {
	if a.stop == "" {
		return Answer{}, brokenOff()
	}
	out := Answer{Stop: StopEnd, Usage: stint.Tokens{ModelCalls: 1}}
	switch {
	case a.stop == "length":
		out.Stop = StopLength
	case a.stop == "content_filter":
		out.Stop = StopRefusal
	case len(a.calls) > 0:
		out.Stop = StopTools
	}
	if u := a.usage; u != nil {
		out.Usage.InputTokens, out.Usage.OutputTokens = u.Input, u.Output
		out.Usage.CacheReadTokens, out.Usage.ReasoningTokens = u.Details.Cached, u.OutputDetails.Reasoning
	}
	if a.reason.Len() > 0 {
		out.Parts = append(out.Parts, Part{Kind: Reasoning, Text: a.reason.String()})
	}
	if a.text.Len() > 0 {
		out.Parts = append(out.Parts, Part{Kind: Text, Text: a.text.String()})
	}
	for _, c := range a.calls {
		out.Parts = append(out.Parts, use(c.id, c.name, c.input.String()))
	}
	return out, nil
}
