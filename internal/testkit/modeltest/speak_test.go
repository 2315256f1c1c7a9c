package modeltest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

var allDialects = []string{modeltest.Anthropic, modeltest.Responses, modeltest.Chat, modeltest.Gemini}

type object = map[string]any

// turn is a message of the user or, if user is empty, the result of a tool.
type turn struct{ user, tool string }

// shellForm is the schema of the arguments of a shell tool. anyForm is the schema of the
// arguments of run_agent, a tool of an MCP server.
var (
	shellForm = object{"type": "object", "required": []string{"command", "why"}, "properties": object{"command": object{"type": "string"}, "why": object{"type": "string"}}}
	anyForm   = object{"type": "object"}
)

// body returns the path and the body of a request with the conversation turns in the
// format of the dialect.
func body(t *testing.T, dialect string, stream bool, turns []turn) (path, text string) {
	t.Helper()
	var request object
	switch dialect {
	case modeltest.Anthropic:
		path = "/v1/messages?beta=true"
		request = object{"model": "m", "max_tokens": 100, "stream": stream, "tools": []object{
			{"name": "Bash", "input_schema": shellForm}, {"name": "mcp__stint__run_agent", "input_schema": anyForm},
		}}
		request["messages"] = messages(turns, func(said turn) object {
			if said.user != "" {
				return object{"role": "user", "content": []object{{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": said.user}}}
			}
			return object{"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": "t", "content": said.tool}}}
		}, object{"role": "assistant", "content": "so"})
	case modeltest.Responses:
		path = "/v1/responses"
		request = object{"model": "m", "stream": stream, "tools": []object{
			{"type": "function", "name": "exec_command", "parameters": object{"properties": object{"cmd": object{"type": "string"}}}},
			{"type": "namespace", "name": "mcp__stint", "tools": []object{{"type": "function", "name": "run_agent", "parameters": anyForm}}},
		}}
		request["input"] = messages(turns, func(said turn) object {
			if said.user != "" {
				return object{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": said.user}}}
			}
			return object{"type": "function_call_output", "call_id": "c", "output": said.tool}
		}, object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": "so"}}})
	case modeltest.Chat:
		path = "/v1/chat/completions"
		request = object{"model": "m", "stream": stream, "stream_options": object{"include_usage": true}, "tools": []object{
			{"type": "function", "function": object{"name": "bash", "parameters": shellForm}}, {"type": "function", "function": object{"name": "stint_run_agent", "parameters": anyForm}},
		}}
		request["messages"] = messages(turns, func(said turn) object {
			if said.user != "" {
				return object{"role": "user", "content": said.user}
			}
			return object{"role": "tool", "tool_call_id": "c", "content": said.tool}
		}, object{"role": "assistant", "content": "so"})
	case modeltest.Gemini:
		path = "/v1beta/models/m:generateContent"
		if stream {
			path = "/v1beta/models/m:streamGenerateContent?alt=sse"
		}
		request = object{"tools": []object{{"functionDeclarations": []object{
			{"name": "run_shell_command", "parameters": shellForm}, {"name": "mcp_stint_run_agent", "parametersJsonSchema": anyForm},
		}}}}
		request["contents"] = messages(turns, func(said turn) object {
			if said.user != "" {
				return object{"role": "user", "parts": []object{{"text": said.user}}}
			}
			return object{"role": "user", "parts": []object{{"functionResponse": object{"name": "n", "response": object{"output": said.tool}}}}}
		}, object{"role": "model", "parts": []object{{"text": "so"}}})
	}
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(data)
}

// messages converts the turns by write and inserts model, an answer of the model, between
// them.
func messages(turns []turn, write func(turn) object, model object) []object {
	var all []object
	for i, said := range turns {
		if i > 0 {
			all = append(all, model)
		}
		all = append(all, write(said))
	}
	return all
}

// post sends a model call and returns the response. The body is closed at the end of the
// test.
func post(t *testing.T, url, dialect string, stream bool, turns ...turn) *http.Response {
	t.Helper()
	path, text := body(t, dialect, stream, turns)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer a-key")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// ask sends a model call and returns the status and the body of the response.
func ask(t *testing.T, url, dialect string, stream bool, turns ...turn) (int, string) {
	t.Helper()
	response := post(t, url, dialect, stream, turns...)
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// pieces returns the text of each event in a stream of the dialect, without empty texts.
func pieces(t *testing.T, dialect, stream string) []string {
	t.Helper()
	var texts []string
	for lines := bufio.NewScanner(strings.NewReader(stream)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			Type    string
			Delta   json.RawMessage
			Choices []struct {
				Delta struct{ Content string }
			}
			Candidates []struct {
				Content struct{ Parts []struct{ Text string } }
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		var text string
		switch {
		case dialect == modeltest.Anthropic && e.Type == "content_block_delta":
			var d struct{ Text string }
			if err := json.Unmarshal(e.Delta, &d); err != nil {
				t.Fatal(err)
			}
			text = d.Text
		case dialect == modeltest.Responses && e.Type == "response.output_text.delta":
			if err := json.Unmarshal(e.Delta, &text); err != nil {
				t.Fatal(err)
			}
		case dialect == modeltest.Chat && len(e.Choices) > 0:
			text = e.Choices[0].Delta.Content
		case dialect == modeltest.Gemini:
			text = e.Candidates[0].Content.Parts[0].Text
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
