package acp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/acp"
)

// agent is a fake agent: it sends lines and records the client's reaction.
type agent struct {
	t      *testing.T
	d      framework.Decoder
	events []stint.OutputData
	usage  *stint.Usage
	native int  // number of native lines
	over   bool // the client closed standard input after the final message
}

func newAgent(t *testing.T, in framework.Input) *agent {
	t.Helper()
	if in.Definition == nil {
		in.Definition = &stint.Definition{}
	}
	if in.WorkDir == "" {
		in.WorkDir = "/w"
	}
	return &agent{t: t, d: acp.Framework{}.NewDecoder(in)}
}

// says sends a line to the client and returns the client's answer without its
// "jsonrpc" member.
func (a *agent) says(format string, args ...any) string {
	a.t.Helper()
	s := a.d.Write(framework.Stdout, fmt.Appendf(nil, format+"\n", args...))
	a.events, a.native = append(a.events, s.Events...), a.native+len(s.Native)
	if s.Usage != nil {
		a.usage = s.Usage
	}
	a.over = a.over || s.CloseStdin && s.Ended
	return strings.TrimSuffix(strings.ReplaceAll(string(s.Send), `{"jsonrpc":"2.0",`, "{"), "\n")
}

func (a *agent) updates(format string, args ...any) string {
	a.t.Helper()
	return a.says(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":`+format+`}}`, args...)
}

// greets sends the agent's answers of the handshake. The client then waits for the
// answer to its prompt.
func (a *agent) greets(capabilities string) {
	a.t.Helper()
	a.says(`{"id":1,"result":{"protocolVersion":1,"agentCapabilities":%s,"agentInfo":{"name":"fake","version":"1.2"}}}`, capabilities)
	a.says(`{"id":2,"result":{"sessionId":"s"}}`)
}

func (a *agent) contents() (out []string) {
	for _, e := range a.events {
		kind := e.Stream
		if e.Item != nil {
			kind = string(e.Item.Kind)
		}
		out = append(out, kind+": "+e.Content)
	}
	return out
}

func (a *agent) want(want ...string) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.contents()); diff != "" {
		a.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (a *agent) ends(want framework.Verdict) {
	a.t.Helper()
	if diff := cmp.Diff(want, a.d.Verdict(0)); diff != "" || !a.over {
		a.t.Errorf("ended %v, verdict (-want +got):\n%s", a.over, diff)
	}
}

func equal(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	a.greets(`{}`)
	// The call is announced without input, gets its input, starts, and fails. An
	// update after its end is ignored.
	a.updates(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hm."}}`)
	a.updates(`{"sessionUpdate":"tool_call","toolCallId":"t1","title":"Terminal","kind":"execute","status":"pending","rawInput":{}}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","rawInput":{"command":"make\ntest"},"content":[{"type":"content","content":{"type":"text","text":"Build"}}]}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress"}`)
	a.updates("%s", "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t1\",\"status\":\"failed\",\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"```console\\nno rule\\n```\"}}],\"_meta\":{\"terminal_exit\":{\"exit_code\":2}}}")
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","_meta":{"late":{"toolName":"x"}}}`)
	// The call is announced with a part of its input.
	a.updates(`{"sessionUpdate":"tool_call","toolCallId":"t5","title":"bash","kind":"execute","status":"pending","rawInput":{"cwd":"/w"}}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t5","title":"ls","status":"in_progress","rawInput":{"command":"ls","cwd":"/w"}}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t5","status":"completed"}`)
	// The call is announced with a diff, and its output is not text.
	a.updates(`{"sessionUpdate":"tool_call","toolCallId":"t2","title":"Edit a.txt","kind":"edit","status":"in_progress","content":[{"type":"diff","path":"a.txt","oldText":"1\n2\n3\n","newText":"1\n2b\n3\n"}]}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t2","status":"completed","rawOutput":{"ok":true}}`)
	// The call was not announced, and its output is an object with an exit code.
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t3","title":"bash","kind":"switch_mode","status":"completed","rawOutput":{"output":"hi\n","metadata":{"exit":0}}}`)
	// The call has no input, and a message arrives before its end.
	a.updates(`{"sessionUpdate":"tool_call","toolCallId":"t4","title":"Look","kind":"read","status":"pending"}`)
	a.updates(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Well."}}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t4","status":"completed","rawOutput":[{"type":"text","text":"seen"}]}`)
	a.says(`{"id":3,"result":{"stopReason":"end_turn"}}`)
	a.want("reasoning: Hm.", "reasoning: \n",
		"tool_call: $ make …\n", "tool_result: no rule\n",
		"tool_call: $ ls\n", "tool_result: (no output)\n",
		"tool_call: Edit a.txt\n", "tool_result: a.txt\n@@ -2,1 +2,1 @@\n-2\n+2b\n{\"ok\":true}\n",
		"tool_call: bash\n", "tool_result: hi\n",
		"tool_call: Look\n", "message: Well.", "message: \n", "tool_result: seen\n")
	two, none := 2, 0
	wanted := []stint.ToolItem{
		{ID: "t1", Title: "$ make …", Category: "execute", Input: json.RawMessage(`{"command":"make\ntest"}`), Status: "in_progress"},
		{ID: "t1", Category: "execute", Status: "failed", ExitCode: &two},
		{ID: "t5", Title: "$ ls", Category: "execute", Input: json.RawMessage(`{"command":"ls","cwd":"/w"}`), Status: "in_progress"},
		{ID: "t5", Category: "execute", Status: "completed"},
		{ID: "t2", Title: "Edit a.txt", Category: "edit", Status: "in_progress"},
		{ID: "t2", Category: "edit", Status: "completed"},
		{ID: "t3", Title: "bash", Category: "other", Status: "in_progress"},
		{ID: "t3", Category: "other", Status: "completed", ExitCode: &none},
		{ID: "t4", Title: "Look", Category: "read", Status: "in_progress"},
		{ID: "t4", Category: "read", Status: "completed"},
	}
	var got []stint.ToolItem
	for _, e := range a.events {
		if e.Item.Tool != nil {
			got = append(got, *e.Item.Tool)
		}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	a.greets(`{}`)
	for _, chunk := range []string{
		`"content":{"type":"text","text":"One "},"messageId":"m1"`, `"content":{"type":"text","text":"two"},"messageId":"m1"`,
		`"content":{"type":"resource_link","uri":"file:///a"},"messageId":"m2"`, `"content":{"type":"image","mimeType":"image/png"}`,
	} {
		a.updates(`{"sessionUpdate":"agent_message_chunk",%s}`, chunk)
	}
	a.updates(`{"sessionUpdate":"plan","entries":[{"content":"a","status":"completed","priority":"high"},{"content":"b","status":"odd"}]}`)
	a.updates(`{"sessionUpdate":"plan_update","plan":{"type":"items","id":"p","entries":[{"content":"c","status":"in_progress"}]}}`)
	a.updates(`{"sessionUpdate":"current_mode_update","currentModeId":"x"}`)
	a.want("message: One ", "message: two", "message: \n", "message: file:///a", "message: (image image/png)", "message: \n", "plan: [x] a\n[ ] b\n", "plan: [~] c\n")
	if got := a.d.Verdict(0).Final; got != "file:///a(image image/png)" {
		t.Errorf("the last message is %q", got)
	}
}

func TestAgentRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ request, want string }{
		"permission, once before always": {
			`{"id":7,"method":"session/request_permission","params":{"options":[{"kind":"allow_always","optionId":"A"},{"kind":"reject_once","optionId":"R"},{"kind":"allow_once","optionId":"O"}]}}`,
			`{"id":7,"result":{"outcome":{"optionId":"O","outcome":"selected"}}}`,
		},
		"permission, always": {
			`{"id":"seven","method":"session/request_permission","params":{"options":[{"kind":"reject_always","optionId":"R"},{"kind":"allow_always","optionId":"A"}]}}`,
			`{"id":"seven","result":{"outcome":{"optionId":"A","outcome":"selected"}}}`,
		},
		"permission, no option": {
			`{"id":0,"method":"session/request_permission","params":{"options":[{"kind":"reject_once","optionId":"R"}]}}`,
			`{"id":0,"result":{"outcome":{"outcome":"cancelled"}}}`,
		},
		"files":                       {`{"id":1,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}`, `{"id":1,"error":{"code":-32601,"message":"Method not found: fs/read_text_file"}}`},
		"terminals":                   {`{"id":2,"method":"terminal/create","params":{"command":"x"}}`, `{"id":2,"error":{"code":-32601,"message":"Method not found: terminal/create"}}`},
		"unknown":                     {`{"id":1.5,"method":"_x"}`, `{"id":1.5,"error":{"code":-32601,"message":"Method not found: _x"}}`},
		"an odd ID":                   {`{"id":{"a":1},"method":"_x"}`, `{"id":null,"error":{"code":-32600,"message":"The ID of a request is a number or a short string."}}`},
		"notification":                {`{"method":"_x","params":{}}`, ``},
		"null ID":                     {`{"id":null,"method":"_x"}`, ``},
		"response to another request": {`{"id":99,"result":{"stopReason":"end_turn"}}`, ``},
		"neither":                     {`{"jsonrpc":"2.0"}`, ``},
		"params of a wrong type":      {`{"method":"session/update","params":[1,2]}`, ``},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, framework.Input{})
			a.greets(`{}`)
			before := a.native
			equal(t, tt.want, a.says("%s", tt.request))
			if a.over || a.native != before+1 {
				t.Errorf("over %v, %d native lines", a.over, a.native-before)
			}
		})
	}
}

// A permission request reports its tool call before it is answered.
func TestPermissionReportsTool(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	a.greets(`{}`)
	a.says(`{"id":1,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"t","title":"Write x","kind":"edit"},"options":[]}}`)
	a.want("tool_call: Write x\n", "notice: The agent asked for a permission but offered no option that grants it.\n")
}

func TestModelErrors(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{
		Definition: &stint.Definition{Framework: "acp", Provider: &stint.Provider{Type: stint.ProviderAnthropic, APIKey: &stint.SecretRef{Secret: "MODEL_KEY"}}},
		Model:      &framework.Endpoint{Type: stint.ProviderAnthropic, URL: "http://m", Key: "k"},
	})
	a.greets(`{}`)
	a.says(`{"id":3,"error":{"code":-32603,"message":"Internal error: Failed to authenticate. API Error: 401 bad key"}}`)
	if v := a.d.Verdict(0); v.Completed || !strings.Contains(v.Message, "refused the key (401)") || !strings.Contains(v.Message, "MODEL_KEY") {
		t.Errorf("the verdict is %+v", v)
	}
}

// Texts are masked before they are cut, because a part of a secret cannot be
// recognised.
func TestSecretsAreMaskedBeforeCut(t *testing.T) {
	t.Parallel()
	const hidden = "hunter-two-hunter"
	said := strings.Repeat("a", 768-5) + hidden + strings.Repeat("b", 1024) + hidden + strings.Repeat("c", 256-5)
	for name, end := range map[string]string{
		"fault":       `{"id":3,"error":{"code":-32603,"message":"` + said + `"}}`,
		"stop reason": `{"id":3,"result":{"stopReason":"` + said + `"}}`,
		"logged out":  `{"id":3,"error":{"code":-32000,"message":"` + said + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, framework.Input{Mask: func(text string) string { return strings.ReplaceAll(text, hidden, "***") }})
			a.greets(`{}`)
			a.says("%s", end)
			if got := a.d.Verdict(0).Message; strings.Contains(got, "hunt") || strings.Contains(got, "nter") || !strings.Contains(got, "bytes left out") {
				t.Errorf("it says %q", got)
			}
		})
	}
	t.Run("notice", func(t *testing.T) {
		t.Parallel()
		a := newAgent(t, framework.Input{Definition: &stint.Definition{Model: "m-2"}, Mask: func(text string) string { return strings.ReplaceAll(text, hidden, "***") }})
		a.says(`{"id":1,"result":{"protocolVersion":1}}`)
		a.says(`{"id":2,"result":{"sessionId":"s","models":{"currentModelId":"m-1","availableModels":[]}}}`)
		a.says(`{"id":3,"error":{"code":-32602,"message":"%s"}}`, said)
		if got := a.events[0].Content; strings.Contains(got, "hunt") || strings.Contains(got, "nter") || !strings.Contains(got, "bytes left out") {
			t.Errorf("it says %q", got)
		}
	})
}

func TestStopReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer string
		reason stint.Reason
		want   string // part of the message
	}{
		"too long":          {`"result":{"stopReason":"max_tokens"}`, "", "length"},
		"too many requests": {`"result":{"stopReason":"max_turn_requests"}`, stint.ReasonBudget, "reached its own limit of model requests"},
		"refusal":           {`"result":{"stopReason":"refusal"}`, "", "refused"},
		"cancelled":         {`"result":{"stopReason":"cancelled"}`, "", "cancelled its work"},
		"unknown reason":    {`"result":{"stopReason":"tired"}`, "", "'tired'"},
		"no reason":         {`"result":null`, "", "''"},
		"an error":          {`"error":{"code":-32603,"message":"Internal error: API Error: 400","data":{"errorKind":"unknown"}}`, "", "The agent could not answer the prompt: API Error: 400."},
		"a bare error":      {`"error":{"code":-32603,"message":"Internal error","data":"disk on fire"}`, "", "prompt: disk on fire."},
		"no message":        {`"error":{"code":-32603,"message":"Internal error"}`, "", "prompt: Internal error (code -32603)."},
		"logged out":        {`"error":{"code":-32000,"message":"Authentication required"}`, "", "The agent is not logged in. Give the definition a 'provider'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, framework.Input{})
			a.greets(`{}`)
			a.updates(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"So far."}}`)
			a.says(`{"id":3,%s}`, tt.answer)
			v := a.d.Verdict(0)
			if v.Completed || v.Reason != tt.reason || !strings.Contains(v.Message, tt.want) || v.Final != "So far." || !a.over {
				t.Errorf("over %v, verdict %+v, want %q", a.over, v, tt.want)
			}
		})
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	if v := a.d.Verdict(127); v.Completed || !strings.Contains(v.Message, "without answering the prompt (exit code 127); it did not answer 'initialize'") {
		t.Errorf("before 'initialize' was answered: %+v", v)
	}
	a.greets(`{}`)
	a.updates(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"Wait","status":"pending"}`)
	errs := a.d.Write(framework.Stderr, []byte("Error: out of\nmemory"))
	errs.Join(a.d.Flush(framework.Stderr))
	a.events = append(a.events, errs.Events...)
	a.events = append(a.events, a.d.Flush(framework.Stdout).Events...)
	a.want("stderr: Error: out of\n", "stderr: memory\n", "tool_call: Wait\n")
	if v := a.d.Verdict(0); v.Completed || v.Message != "The agent ended without answering the prompt (exit code 0)." {
		t.Errorf("after it: %+v", v)
	}
}

func TestOddLines(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	for _, line := range []string{"Starting…", `{"id":1,"result":`, `[{"id":1}]`, "", "null"} {
		if got := a.says("%s", line); got != "" {
			t.Errorf("%q was answered with %s", line, got)
		}
	}
	a.want("stdout: Starting…\n", "stdout: {\"id\":1,\"result\":\n", "stdout: [{\"id\":1}]\n", "stdout: null\n")
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	a.greets(`{}`)
	text := strings.Repeat("x", 256<<10)
	a.updates(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}`, text)
	var got strings.Builder
	for _, e := range a.events {
		got.WriteString(e.Content)
		if len(e.Content) > 32<<10 {
			t.Errorf("an event of %d bytes", len(e.Content))
		}
	}
	if got.String() != text || a.d.Verdict(0).Final != text {
		t.Error("a long message was changed")
	}
	a.events = nil
	a.d.Write(framework.Stdout, bytes.Repeat([]byte("{"), framework.MaxLine))
	a.says("}")
	a.want(fmt.Sprintf("notice: A message of the agent of more than %d bytes was left out.\n", framework.MaxLine))
	a.says(`{"id":3,"result":{"stopReason":"end_turn"}}`)
	if !a.d.Verdict(0).Completed {
		t.Error("the conversation ends after a line that is too long")
	}
}

// The number of unfinished tool calls in memory is limited.
func TestManyTools(t *testing.T) {
	t.Parallel()
	a := newAgent(t, framework.Input{})
	a.greets(`{}`)
	for i := range 5_000 { // more than maxTools
		a.updates(`{"sessionUpdate":"tool_call","toolCallId":"t%d","title":"T","status":"in_progress"}`, i)
	}
	a.events = nil
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t4999","status":"completed"}`)
	a.updates(`{"sessionUpdate":"tool_call_update","toolCallId":"t0","status":"completed"}`) // forgotten, so it is a new call
	a.want("tool_result: (no output)\n", "tool_call: tool\n", "tool_result: (no output)\n")
}
