package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

type responsesRequest struct {
	Model  string          `json:"model"`
	Stream bool            `json:"stream"`
	Input  responsesInput  `json:"input"`
	Tools  []responsesTool `json:"tools"`
	Text   struct {
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

type responsesItem struct {
	Type    string  `json:"type"` // empty for a message
	Role    string  `json:"role"`
	Content content `json:"content"`
	Output  content `json:"output"` // result of a tool call
}

type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Form  json.RawMessage `json:"parameters"`
	Tools []responsesTool `json:"tools"` // tools in a namespace
}

// responsesInput is the input of a request: a list of items. In JSON, a string stands
// for a list with one message of the user.
type responsesInput []responsesItem

// UnmarshalJSON decodes a list or a string.
func (in *responsesInput) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*in = responsesInput{{Role: "user", Content: content{{Text: text}}}}
		return nil
	}
	return json.Unmarshal(data, (*[]responsesItem)(in))
}

func readResponses(_ string, body []byte) (prompt, error) {
	var r responsesRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return prompt{}, fmt.Errorf("reading the request: %w", err)
	}
	p := prompt{model: r.Model, stream: r.Stream}
	for _, item := range r.Input {
		switch {
		case strings.HasSuffix(item.Type, "_output"):
			p.result(item.Output.String())
		case item.Role == "user":
			p.user(item.Content.texts()...)
		default:
			p.length++
		}
	}
	p.declare("", r.Tools)
	if r.Text.Format.Type == "json_schema" {
		p.asks = readSchema(r.Text.Format.Schema)
	}
	return p, nil
}

func (p *prompt) declare(space string, tools []responsesTool) {
	for _, t := range tools {
		switch {
		case t.Type == "namespace":
			p.declare(t.Name, t.Tools)
		case t.Name != "":
			p.tools = append(p.tools, tool{space: space, name: t.Name, form: readSchema(t.Form)})
		}
	}
}

// responsesStream collects the events of a stream and numbers them from 0.
type responsesStream struct{ events []event }

func (s *responsesStream) add(name string, data object) {
	data["type"], data["sequence_number"] = name, len(s.events)
	s.events = append(s.events, event{name, data})
}

func streamResponses(_ prompt, a answer) []event {
	var s responsesStream
	begin := func() object {
		r := wholeResponses(a)
		r["status"], r["output"], r["usage"] = "in_progress", []any{}, nil
		return r
	}
	s.add("response.created", object{"response": begin()})
	s.add("response.in_progress", object{"response": begin()})
	for i, item := range a.responsesItems() {
		switch item["type"] {
		case "reasoning":
			s.reasoning(i, item, a)
		case "message":
			s.message(i, item, a)
		case "function_call":
			s.call(i, item)
		}
	}
	s.add("response.completed", object{"response": wholeResponses(a)})
	return s.events
}

// with returns a copy of item with the fields of other added or replaced.
func with(item, other object) object {
	copied := maps.Clone(item)
	maps.Copy(copied, other)
	return copied
}

func (s *responsesStream) reasoning(i int, item object, a answer) {
	at := object{"item_id": item["id"], "output_index": i, "summary_index": 0}
	s.add("response.output_item.added", object{"output_index": i, "item": with(item, object{"summary": []any{}})})
	s.add("response.reasoning_summary_part.added", with(at, object{"part": object{"type": "summary_text", "text": ""}}))
	s.add("response.reasoning_summary_text.delta", with(at, object{"delta": a.think}))
	s.add("response.reasoning_summary_text.done", with(at, object{"text": a.think}))
	s.add("response.reasoning_summary_part.done", with(at, object{"part": object{"type": "summary_text", "text": a.think}}))
	s.add("response.output_item.done", object{"output_index": i, "item": item})
}

func (s *responsesStream) message(i int, item object, a answer) {
	at := object{"item_id": item["id"], "output_index": i, "content_index": 0}
	s.add("response.output_item.added", object{"output_index": i, "item": with(item, object{"status": "in_progress", "content": []any{}})})
	s.add("response.content_part.added", with(at, object{"part": outputText("")}))
	for _, piece := range a.pieces {
		s.add("response.output_text.delta", with(at, object{"delta": piece, "logprobs": []any{}}))
	}
	s.add("response.output_text.done", with(at, object{"text": a.text(), "logprobs": []any{}}))
	s.add("response.content_part.done", with(at, object{"part": outputText(a.text())}))
	s.add("response.output_item.done", object{"output_index": i, "item": item})
}

func (s *responsesStream) call(i int, item object) {
	at := object{"item_id": item["id"], "output_index": i}
	args := item["arguments"].(string)
	s.add("response.output_item.added", object{"output_index": i, "item": with(item, object{"status": "in_progress", "arguments": ""})})
	for _, piece := range split(args, 2) {
		s.add("response.function_call_arguments.delta", with(at, object{"delta": piece}))
	}
	s.add("response.function_call_arguments.done", with(at, object{"name": item["name"], "arguments": args}))
	s.add("response.output_item.done", object{"output_index": i, "item": item})
}

func wholeResponses(a answer) object {
	return object{
		"id": "resp_" + a.id, "object": "response", "created_at": a.at.Unix(), "status": "completed", "error": nil, "incomplete_details": nil,
		"model": a.model, "output": a.responsesItems(), "parallel_tool_calls": false, "tool_choice": "auto", "tools": []any{},
		"usage": object{
			"input_tokens": a.usage.in, "output_tokens": a.usage.out, "total_tokens": a.usage.in + a.usage.out,
			"input_tokens_details":  object{"cached_tokens": a.usage.cacheRead, "cache_write_tokens": a.usage.cacheWrite},
			"output_tokens_details": object{"reasoning_tokens": a.usage.reasoning},
		},
	}
}

func (a answer) responsesItems() []object {
	var items []object
	if a.think != "" {
		items = append(items, object{"type": "reasoning", "id": "rs_" + a.id, "summary": []object{{"type": "summary_text", "text": a.think}}})
	}
	if a.text() != "" {
		items = append(items, object{"type": "message", "id": "msg_" + a.id, "status": "completed", "role": "assistant", "content": []object{outputText(a.text())}})
	}
	if a.call != nil {
		item := object{"type": "function_call", "id": "fc_" + a.id, "status": "completed", "call_id": "call_" + a.call.id, "name": a.call.tool.name, "arguments": string(a.call.args)}
		if a.call.tool.space != "" {
			item["namespace"] = a.call.tool.space
		}
		items = append(items, item)
	}
	return items
}

func outputText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// faultOpenAI returns the error body of both OpenAI dialects.
func faultOpenAI(code int, message string) object {
	kind, short := "invalid_request_error", any(nil)
	switch {
	case code == 401:
		short = "invalid_api_key"
	case code == 404:
		short = "model_not_found"
	case code == 429:
		kind, short = "requests", "rate_limit_exceeded"
	case code >= 500:
		kind = "server_error"
	}
	return object{"error": object{"message": message, "type": kind, "param": nil, "code": short}}
}
