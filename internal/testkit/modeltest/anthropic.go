package modeltest

import (
	"encoding/json"
	"fmt"
)

type anthropicRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
}

func readAnthropic(_ string, body []byte) (prompt, error) {
	var r anthropicRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return prompt{}, fmt.Errorf("reading the request: %w", err)
	}
	p := prompt{model: r.Model, stream: r.Stream}
	for _, m := range r.Messages {
		if m.Role != "user" {
			p.length++
			continue
		}
		for _, b := range m.Content {
			if b.Type == "tool_result" {
				p.result(b.Content.String())
			}
		}
		p.user(m.Content.texts()...)
	}
	for _, t := range r.Tools {
		p.tools = append(p.tools, tool{name: t.Name, form: readSchema(t.Schema)})
	}
	return p, nil
}

func streamAnthropic(_ prompt, a answer) []event {
	begin := wholeAnthropic(a)
	begin["content"], begin["stop_reason"] = []any{}, nil
	begin["usage"] = a.usage.anthropic(min(1, a.usage.out))
	events := []event{{"message_start", object{"message": begin}}}
	for i, block := range a.anthropicBlocks() {
		events = append(events, anthropicBlock(i, block, a)...)
	}
	events = append(events,
		event{"message_delta", object{"delta": object{"stop_reason": a.anthropicStop(), "stop_sequence": nil}, "usage": a.usage.anthropic(a.usage.out)}},
		event{"message_stop", object{}})
	for _, e := range events {
		e.data.(object)["type"] = e.name
	}
	return events
}

// anthropicBlock returns the events of content block i: its start, deltas, and end.
func anthropicBlock(i int, block object, a answer) []event {
	var empty object
	var deltas []object
	switch block["type"] {
	case "thinking":
		empty = object{"type": "thinking", "thinking": "", "signature": ""}
		deltas = []object{{"type": "thinking_delta", "thinking": a.think}, {"type": "signature_delta", "signature": block["signature"]}}
	case "text":
		empty = object{"type": "text", "text": ""}
		for _, piece := range a.pieces {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
	case "tool_use":
		empty = object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
		for _, piece := range split(string(a.call.args), 2) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
	}
	events := []event{{"content_block_start", object{"index": i, "content_block": empty}}}
	for _, d := range deltas {
		events = append(events, event{"content_block_delta", object{"index": i, "delta": d}})
	}
	return append(events, event{"content_block_stop", object{"index": i}})
}

func wholeAnthropic(a answer) object {
	return object{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": a.model, "content": a.anthropicBlocks(),
		"stop_reason": a.anthropicStop(), "stop_sequence": nil, "usage": a.usage.anthropic(a.usage.out),
	}
}

func (a answer) anthropicBlocks() []object {
	var blocks []object
	if a.think != "" {
		blocks = append(blocks, object{"type": "thinking", "thinking": a.think, "signature": "sig_" + a.id})
	}
	if a.text() != "" {
		blocks = append(blocks, object{"type": "text", "text": a.text()})
	}
	if a.call != nil {
		blocks = append(blocks, object{"type": "tool_use", "id": "toolu_" + a.call.id, "name": a.call.tool.name, "input": a.call.args})
	}
	return blocks
}

func (a answer) anthropicStop() string {
	if a.call != nil {
		return "tool_use"
	}
	return "end_turn"
}

// anthropic returns the usage in the format of Anthropic, with out as the number of
// output tokens. input_tokens excludes the tokens read from and written to the cache.
func (u usage) anthropic(out int) object {
	return object{
		"input_tokens": u.in - u.cacheRead - u.cacheWrite, "cache_read_input_tokens": u.cacheRead,
		"cache_creation_input_tokens": u.cacheWrite, "output_tokens": out,
	}
}

func faultAnthropic(code int, message string) object {
	kind := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}[code]
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}
