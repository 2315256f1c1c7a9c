package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stint-dev/stint"
)

// responses is the dialect of OpenAI's Responses API. Requests ask the server not to
// store the conversation. Therefore the server returns reasoning in encrypted form, and
// later requests contain it.
type responses struct {
	plain bool // the model does not support encrypted reasoning
}

func (d *responses) path() string { return "/responses" }

func (d *responses) header(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// relax removes encrypted reasoning from future requests if the server refused it.
func (d *responses) relax(e *Error) bool {
	text := strings.ToLower(e.Message)
	if d.plain || e.Status != http.StatusBadRequest || !strings.Contains(text, "encrypted") && !strings.Contains(text, "include") {
		return false
	}
	d.plain = true
	return true
}

type (
	responsesBody struct {
		Model        string          `json:"model"`
		Instructions string          `json:"instructions,omitempty"`
		Input        []any           `json:"input"`
		Tools        []responsesTool `json:"tools,omitempty"`
		Stream       bool            `json:"stream"`
		Store        bool            `json:"store"`
		Include      []string        `json:"include,omitempty"`
	}
	responsesTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
	responsesMessage struct {
		Type    string             `json:"type"`
		Role    Role               `json:"role"`
		Content []responsesContent `json:"content"`
	}
	responsesContent struct {
		Type    string `json:"type"`
		Text    string `json:"text,omitempty"`
		Refusal string `json:"refusal,omitempty"`
	}
	responsesCall struct {
		Type      string  `json:"type"`
		CallID    string  `json:"call_id"`
		Name      string  `json:"name,omitempty"`
		Arguments string  `json:"arguments,omitempty"`
		Output    *string `json:"output,omitempty"`
	}
)

func (d *responses) body(r Request) any {
	b := responsesBody{Model: r.Model, Instructions: r.Instructions, Stream: true, Input: []any{}}
	if !d.plain {
		b.Include = []string{"reasoning.encrypted_content"}
	}
	for _, t := range r.Tools {
		b.Tools = append(b.Tools, responsesTool{"function", t.Name, t.Description, t.Schema, false})
	}
	for _, m := range merged(r.Messages) {
		for _, p := range m.Parts {
			if item := d.item(m.Role, p, d.origin(r.Model)); item != nil {
				b.Input = append(b.Input, item)
			}
		}
	}
	return b
}

func (d *responses) origin(model string) string { return stint.ProviderResponses + " " + model }

func (d *responses) item(role Role, p Part, origin string) any {
	switch {
	case p.Kind == Text && p.Text != "":
		kind := "input_text"
		if role == Assistant {
			kind = "output_text"
		}
		return responsesMessage{"message", role, []responsesContent{{Type: kind, Text: p.Text}}}
	case p.Kind == Reasoning && p.Origin == origin && len(p.Native) > 0 && !d.plain:
		return p.Native
	case p.Kind == ToolUse:
		return responsesCall{Type: "function_call", CallID: p.ID, Name: p.Name, Arguments: string(p.Input)}
	case p.Kind == ToolResult:
		output := resultText(p)
		return responsesCall{Type: "function_call_output", CallID: p.ID, Output: &output}
	}
	return nil
}

// resultText returns the text of a tool result, for APIs without a member for failure.
// A failure has the prefix "Error: ".
func resultText(p Part) string {
	if p.Failed {
		return "Error: " + p.Text
	}
	return p.Text
}

func (d *responses) reader(r Request, on func(Event)) reader {
	return &responsesReader{on: on, origin: d.origin(r.Model)}
}

type responsesReader struct {
	on     func(Event)
	origin string
	items  []responsesItem
	text   strings.Builder // text of the deltas; used if the server does not send whole messages
	ended  bool
	stop   Stop
	usage  responsesUsage
}

type responsesItem struct {
	Type      string             `json:"type"`
	ID        string             `json:"id"`
	CallID    string             `json:"call_id"`
	Name      string             `json:"name"`
	Arguments string             `json:"arguments"`
	Content   []responsesContent `json:"content"`
	Summary   []responsesContent `json:"summary"`
	Encrypted string             `json:"encrypted_content"`
}

type responsesUsage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Details struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

type responsesWhole struct {
	Status     string          `json:"status"`
	Output     []responsesItem `json:"output"`
	Usage      *responsesUsage `json:"usage"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (a *responsesReader) event(data []byte) (last bool, err error) {
	var e struct {
		Type     string          `json:"type"`
		Delta    json.RawMessage `json:"delta"`
		Item     *responsesItem  `json:"item"`
		Response responsesWhole  `json:"response"`
		Code     string          `json:"code"`
		Message  string          `json:"message"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, unreadable(err)
	}
	var delta string
	_ = json.Unmarshal(e.Delta, &delta) // delta stays empty if e.Delta is not a string
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.text.WriteString(delta)
		a.report(Text, delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.report(Reasoning, delta)
	case "response.reasoning_summary_part.done":
		a.report(Reasoning, "\n")
	case "response.output_item.done":
		if e.Item != nil {
			a.items = append(a.items, *e.Item)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.done":
		return true, a.end(e.Response)
	case "error":
		if f := failure(data); f.Message != "" {
			return true, streamed(cmp.Or(f.Code, e.Code), f.Message)
		}
		return true, streamed(e.Code, e.Message)
	}
	return false, nil
}

func (a *responsesReader) report(kind Kind, text string) {
	if text != "" {
		a.on(Event{Kind: kind, Text: text})
	}
}

func (a *responsesReader) end(w responsesWhole) error {
	if w.Error != nil || w.Status == "failed" {
		if w.Error == nil {
			return streamed("server_error", "")
		}
		return streamed(w.Error.Code, w.Error.Message)
	}
	a.ended, a.stop = true, StopEnd
	switch {
	case w.Incomplete.Reason == "content_filter":
		a.stop = StopRefusal
	case w.Status == "incomplete" || w.Incomplete.Reason != "":
		a.stop = StopLength
	}
	if w.Usage != nil {
		a.usage = *w.Usage
	}
	if len(a.items) == 0 {
		a.items = w.Output
	}
	return nil
}

func (a *responsesReader) whole(data []byte) error {
	var w responsesWhole
	if err := json.Unmarshal(data, &w); err != nil {
		return unreadable(err)
	}
	if err := a.end(w); err != nil {
		return err
	}
	a.ended = w.Output != nil
	for _, item := range a.items {
		for _, p := range a.parts(item) {
			if p.Kind == Text || p.Kind == Reasoning {
				a.report(p.Kind, p.Text)
			}
		}
	}
	return nil
}

func (a *responsesReader) answer() (Answer, error) {
	if !a.ended {
		return Answer{}, brokenOff()
	}
	out := Answer{Stop: a.stop, Usage: stint.Tokens{
		InputTokens: a.usage.Input, OutputTokens: a.usage.Output, CacheReadTokens: a.usage.Details.Cached,
		ReasoningTokens: a.usage.OutputDetails.Reasoning, ModelCalls: 1,
	}}
	said := false
	for _, item := range a.items {
		for _, p := range a.parts(item) {
			said = said || p.Kind == Text
			if p.Kind == ToolUse && out.Stop == StopEnd {
				out.Stop = StopTools
			}
			out.Parts = append(out.Parts, p)
		}
	}
	if !said && a.text.Len() > 0 {
		out.Parts = append([]Part{{Kind: Text, Text: a.text.String()}}, out.Parts...)
	}
	return out, nil
}

func (a *responsesReader) parts(item responsesItem) []Part {
	switch item.Type {
	case "message":
		var text strings.Builder
		for _, c := range item.Content {
			text.WriteString(c.Text + c.Refusal)
		}
		if text.Len() == 0 {
			return nil
		}
		return []Part{{Kind: Text, Text: text.String()}}
	case "function_call":
		return []Part{use(item.CallID, item.Name, item.Arguments)}
	case "reasoning":
		return []Part{a.reasoning(item)}
	}
	return nil
}

func (a *responsesReader) reasoning(item responsesItem) Part {
	p := Part{Kind: Reasoning, Origin: a.origin}
	summary := item.Summary
	if summary == nil {
		summary = []responsesContent{} // the API requires summary, even if it is empty
	}
	for i, s := range summary {
		if i > 0 {
			p.Text += "\n"
		}
		p.Text += s.Text
	}
	if item.Encrypted != "" {
		p.Native, _ = json.Marshal(struct { // strings can be encoded
			Type      string             `json:"type"`
			ID        string             `json:"id,omitempty"`
			Summary   []responsesContent `json:"summary"`
			Encrypted string             `json:"encrypted_content"`
		}{"reasoning", item.ID, summary, item.Encrypted})
	}
	return p
}
