package modeltest

import (
	"encoding/json"
	"fmt"
	"strings"
)

type geminiRequest struct {
	Contents []struct {
		Role  string `json:"role"`
		Parts []struct {
			Text     string `json:"text"`
			Function *struct {
				Response json.RawMessage `json:"response"`
			} `json:"functionResponse"`
		} `json:"parts"`
	} `json:"contents"`
	Tools []struct {
		Functions []struct {
			Name   string          `json:"name"`
			Form   json.RawMessage `json:"parameters"`
			Schema json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Type       string          `json:"responseMimeType"`
		Form       json.RawMessage `json:"responseSchema"`
		JSONSchema json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

func readGemini(path string, body []byte) (prompt, error) {
	var r geminiRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return prompt{}, fmt.Errorf("reading the request: %w", err)
	}
	model, method, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	p := prompt{model: model, stream: method == "streamGenerateContent"}
	for _, m := range r.Contents {
		if m.Role == "model" {
			p.length++
			continue
		}
		var texts []string
		for _, part := range m.Parts {
			if part.Function != nil {
				p.result(geminiOutput(part.Function.Response))
			}
			texts = append(texts, part.Text)
		}
		p.user(texts...)
	}
	for _, t := range r.Tools {
		for _, f := range t.Functions {
			p.tools = append(p.tools, tool{name: f.Name, form: readSchema(either(f.Schema, f.Form))})
		}
	}
	if r.Config.Type == "application/json" {
		p.asks = readSchema(either(r.Config.JSONSchema, r.Config.Form))
	}
	return p, nil
}

func either(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

// geminiOutput returns the field output or error of a function response. Without these
// fields, it returns the whole response as JSON.
func geminiOutput(response json.RawMessage) string {
	var fields struct{ Output, Error *string }
	if json.Unmarshal(response, &fields) == nil {
		for _, text := range []*string{fields.Output, fields.Error} {
			if text != nil {
				return *text
			}
		}
	}
	return string(response)
}

func streamGemini(_ prompt, a answer) []event {
	var events []event
	add := func(parts []object) { events = append(events, event{data: a.gemini(parts)}) }
	if a.think != "" {
		add([]object{{"text": a.think, "thought": true}})
	}
	for _, piece := range a.pieces {
		add([]object{{"text": piece}})
	}
	if a.call != nil {
		add([]object{a.geminiCall()})
	}
	last := a.gemini([]object{{"text": ""}})
	last["candidates"].([]object)[0]["finishReason"] = "STOP"
	last["usageMetadata"] = a.usage.gemini()
	return append(events, event{data: last})
}

func wholeGemini(a answer) object {
	var parts []object
	if a.think != "" {
		parts = append(parts, object{"text": a.think, "thought": true})
	}
	parts = append(parts, object{"text": a.text()})
	if a.call != nil {
		parts = append(parts, a.geminiCall())
	}
	whole := a.gemini(parts)
	whole["candidates"].([]object)[0]["finishReason"] = "STOP"
	whole["usageMetadata"] = a.usage.gemini()
	return whole
}

func (a answer) gemini(parts []object) object {
	return object{
		"responseId": a.id, "modelVersion": a.model,
		"candidates": []object{{"index": 0, "content": object{"role": "model", "parts": parts}}},
	}
}

func (a answer) geminiCall() object {
	return object{"functionCall": object{"id": "call_" + a.call.id, "name": a.call.tool.name, "args": a.call.args}}
}

// gemini returns the usage in the format of Gemini, which counts reasoning tokens
// separately from other output tokens.
func (u usage) gemini() object {
	return object{
		"promptTokenCount": u.in, "cachedContentTokenCount": u.cacheRead, "candidatesTokenCount": u.out - u.reasoning,
		"thoughtsTokenCount": u.reasoning, "totalTokenCount": u.in + u.out,
	}
}

func faultGemini(code int, message string) object {
	status := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
	}[code]
	if status == "" {
		status = "INTERNAL"
	}
	return object{"error": object{"code": code, "message": message, "status": status}}
}
