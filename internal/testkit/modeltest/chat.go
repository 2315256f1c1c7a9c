package modeltest

import (
	"encoding/json"
	"fmt"
)

type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string          `json:"name"`
			Form json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Format struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func readChat(_ string, body []byte) (prompt, error) {
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return prompt{}, fmt.Errorf("reading the request: %w", err)
	}
	p := prompt{model: r.Model, stream: r.Stream, counted: r.StreamOptions.IncludeUsage}
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			p.user(m.Content.texts()...)
		case "tool":
			p.result(m.Content.String())
		default:
			p.length++
		}
	}
	for _, t := range r.Tools {
		p.tools = append(p.tools, tool{name: t.Function.Name, form: readSchema(t.Function.Form)})
	}
	if r.Format.Type == "json_schema" {
		p.asks = readSchema(r.Format.Schema.Schema)
	}
	return p, nil
}

func streamChat(p prompt, a answer) []event {
	var events []event
	add := func(choices []object, usage any) {
		events = append(events, event{data: object{
			"id": "chatcmpl-" + a.id, "object": "chat.completion.chunk", "created": a.at.Unix(), "model": a.model, "choices": choices, "usage": usage,
		}})
	}
	delta := func(d object, finish any) { add([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil) }
	delta(object{"role": "assistant", "content": ""}, nil)
	if a.think != "" {
		delta(object{"reasoning_content": a.think}, nil)
	}
	for _, piece := range a.pieces {
		delta(object{"content": piece}, nil)
	}
	if a.call != nil {
		named := a.chatCall()
		args := split(string(a.call.args), 2)
		named["index"], named["function"] = 0, object{"name": a.call.tool.name, "arguments": args[0]}
		delta(object{"tool_calls": []object{named}}, nil)
		for _, piece := range args[1:] {
			delta(object{"tool_calls": []object{{"index": 0, "function": object{"arguments": piece}}}}, nil)
		}
	}
	delta(object{}, a.chatFinish())
	if p.counted {
		add([]object{}, a.usage.chat())
	}
	return append(events, event{data: "[DONE]"})
}

func wholeChat(a answer) object {
	message := object{"role": "assistant", "content": a.text()}
	if a.think != "" {
		message["reasoning_content"] = a.think
	}
	if a.call != nil {
		message["tool_calls"] = []object{a.chatCall()}
	}
	return object{
		"id": "chatcmpl-" + a.id, "object": "chat.completion", "created": a.at.Unix(), "model": a.model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": a.chatFinish()}}, "usage": a.usage.chat(),
	}
}

func (a answer) chatCall() object {
	return object{"id": "call_" + a.call.id, "type": "function", "function": object{"name": a.call.tool.name, "arguments": string(a.call.args)}}
}

func (a answer) chatFinish() string {
	if a.call != nil {
		return "tool_calls"
	}
	return "stop"
}

func (u usage) chat() object {
	return object{
		"prompt_tokens": u.in, "completion_tokens": u.out, "total_tokens": u.in + u.out,
		"prompt_tokens_details":     object{"cached_tokens": u.cacheRead, "cache_write_tokens": u.cacheWrite},
		"completion_tokens_details": object{"reasoning_tokens": u.reasoning},
	}
}
