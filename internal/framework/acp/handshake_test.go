package acp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

func TestHandshake(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{
		Definition: &stint.Definition{Instructions: "Be kind.\n"}, Prompt: "Go.", Schema: json.RawMessage(`{"type":"object"}`),
		MCP: []framework.MCPServer{
			{Name: "far", URL: "http://far/mcp", Headers: map[string]string{"B": "2", "A": "1"}},
			{Name: "near", Command: []string{"serve", "-v"}, Env: map[string]string{"K": "v"}},
			{Name: "plain", Command: []string{"serve"}},
		},
	})
	equal(t, `{"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[`+
		`{"type":"http","name":"far","url":"http://far/mcp","headers":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},`+
		`{"name":"near","command":"serve","args":["-v"],"env":[{"name":"K","value":"v"}]},`+
		`{"name":"plain","command":"serve","args":[],"env":[]}]}}`,
		a.says(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}}`))
	if a.d.Interrupt() != nil {
		t.Error("something to cancel before the prompt")
	}
	schema, _ := json.Marshal("Go." + framework.SchemaPrompt(json.RawMessage(`{"type":"object"}`)))
	equal(t, `{"id":3,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"Be kind.\n\n"},{"type":"text","text":`+string(schema)+`}],"sessionId":"s"}}`,
		a.says(`{"jsonrpc":"2.0","id":"2","result":{"sessionId":"s"}}`))
	equal(t, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`+"\n", string(a.d.Interrupt()))
	a.updates(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"{}"}}`)
	a.says(`{"id":3,"result":{"stopReason":"end_turn"}}`)
	a.ends(framework.Verdict{Completed: true, Final: "{}"})
	a.want("message: {}", "message: \n")
	if a.d.Interrupt() != nil {
		t.Error("something to cancel after the end")
	}
	equal(t, "", a.says(`{"id":9,"method":"session/request_permission","params":{"options":[{"kind":"allow_once","optionId":"y"}]}}`))
}

func TestHTTPServersNeedCapability(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{MCP: []framework.MCPServer{{Name: "far", URL: "http://far"}, {Name: "near", Command: []string{"x"}}}})
	equal(t, `{"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"near","command":"x","args":[],"env":[]}]}}`,
		a.says(`{"id":1,"result":{"protocolVersion":1}}`))
	a.want("notice: The agent does not support MCP servers over HTTP, so these are missing: far.\n")
}

func TestLoadedHistoryIsSkipped(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{Definition: &stint.Definition{Instructions: "Be kind."}, Prompt: "More.", Resume: &framework.Conversation{ID: "old", Version: "1.1"}})
	if diff := cmp.Diff(framework.Conversation{ID: "old", Version: "1.1"}, a.d.Conversation()); diff != "" {
		t.Errorf("before it is loaded, the conversation is (-want +got):\n%s", diff)
	}
	equal(t, `{"id":2,"method":"session/load","params":{"cwd":"/w","mcpServers":[],"sessionId":"old"}}`,
		a.says(`{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true},"agentInfo":{"version":"1.2"}}}`))
	history := []string{
		`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"Once."}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Long ago"}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"t0","title":"old","status":"completed"}`,
		`{"sessionUpdate":"plan","entries":[{"content":"old","status":"pending"}]}`,
		`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.5,"currency":"USD"}}`,
	}
	for _, h := range history {
		a.updates("%s", h)
	}
	equal(t, `{"id":3,"method":"_stint/settled","params":{"sessionId":"old"}}`, a.says(`{"id":2,"result":null}`))
	for _, h := range history {
		a.updates("%s", h) // some agents send the history after the response
	}
	equal(t, `{"id":4,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"More."}],"sessionId":"old"}}`,
		a.says(`{"id":3,"error":{"code":-32601,"message":"Method not found"}}`))
	a.want()
	a.updates(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Now."}}`)
	a.updates(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.75,"currency":"USD"}}`)
	a.says(`{"id":4,"result":{"stopReason":"end_turn"}}`)
	a.want("message: Now.", "message: \n")
	a.ends(framework.Verdict{Completed: true, Final: "Now."})
	if a.usage == nil || a.usage.CostUSD == nil || *a.usage.CostUSD != 0.25 {
		t.Errorf("the usage of the run is %+v, want a cost of 0.25", a.usage)
	}
	if diff := cmp.Diff(framework.Conversation{Framework: "acp", Version: "1.2", ID: "old"}, a.d.Conversation()); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

func TestLostSessionStartsNewOne(t *testing.T) {
	t.Parallel()
	in := framework.Input{Definition: &stint.Definition{Instructions: "Be kind."}, Prompt: "More.", Resume: &framework.Conversation{ID: "old"}}
	fresh := `"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`
	t.Run("the agent cannot load", func(t *testing.T) {
		t.Parallel()
		a := newAgent(t, in)
		equal(t, `{"id":2,`+fresh, a.says(`{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":null}}}}`))
		a.want("notice: The agent cannot load conversations: it starts a new one, with only the files of the earlier runs.\n")
		if !strings.Contains(a.says(`{"id":2,"result":{"sessionId":"new"}}`), "Be kind.") {
			t.Error("a new conversation does not start with the instructions")
		}
	})
	t.Run("resume fails, then load", func(t *testing.T) {
		t.Parallel()
		a := newAgent(t, in)
		a.says(`{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}}`)
		equal(t, `{"id":3,"method":"session/load","params":{"cwd":"/w","mcpServers":[],"sessionId":"old"}}`, a.says(`{"id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"no"}}}`))
		equal(t, `{"id":4,`+fresh, a.says(`{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"gone"}}}`))
		a.want("notice: The agent could not continue its conversation (gone): it starts a new one, with only the files of the earlier runs.\n")
	})
}

func TestFailedHandshakes(t *testing.T) {
	t.Parallel()
	initializeResult := `{"id":1,"result":{"protocolVersion":1,"authMethods":[{"id":"web","name":"Browser"},{"id":"cli","type":"terminal"},{"id":"key","type":"env_var","vars":[{"name":"FAKE_KEY"}]}]}}`
	tests := map[string]struct {
		lines []string
		want  string
	}{
		"another version":       {[]string{`{"id":1,"result":{"protocolVersion":2}}`}, "uses version 2"},
		"no protocol":           {[]string{`{"id":1,"error":{"code":-32601,"message":"?"}}`}, "Check that 'command' starts it"},
		"no session":            {[]string{initializeResult, `{"id":2,"error":{"code":-32602,"message":"cwd is gone"}}`}, "could not start a session: cwd is gone."},
		"session without an ID": {[]string{initializeResult, `{"id":2,"result":{}}`}, "without an ID"},
		"a refused key":         {[]string{initializeResult, `{"id":2,"error":{"code":-32000,"message":"log in"}}`, `{"id":3,"error":{"code":-32603,"message":"bad key"}}`}, "not logged in (log in). Give the definition a 'provider' of a type that the agent supports, or set FAKE_KEY"},
		"and again":             {[]string{initializeResult, `{"id":2,"error":{"code":-32000,"message":"x"}}`, `{"id":3,"result":{}}`, `{"id":4,"error":{"code":-32000,"message":"x"}}`}, "not logged in"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, framework.Input{})
			for _, line := range tt.lines {
				a.says("%s", line)
			}
			if v := a.d.Verdict(0); v.Completed || !strings.Contains(v.Message, tt.want) || !a.over {
				t.Errorf("over %v, verdict %+v, want %q", a.over, v, tt.want)
			}
		})
	}
}

func TestLoginWithKey(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	a.says(`{"id":1,"result":{"protocolVersion":1,"authMethods":[{"id":"oauth-personal"},{"id":"gemini-api-key"}]}}`)
	equal(t, `{"id":3,"method":"authenticate","params":{"methodId":"gemini-api-key"}}`, a.says(`{"id":2,"error":{"code":-32000,"message":"Authentication required"}}`))
	equal(t, `{"id":4,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`, a.says(`{"id":3,"result":{}}`))
}
