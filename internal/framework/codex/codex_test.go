package codex_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/codex"
	"github.com/stint-dev/stint/internal/framework/frameworktest"
)

func input() framework.Input {
	return framework.Input{
		Definition: &stint.Definition{Framework: "codex", Model: "mock-model", Provider: &stint.Provider{APIKey: &stint.SecretRef{Secret: "MODEL_KEY"}}},
		Prompt:     "Do it.", PromptPath: "/run/stint/prompt", RunDir: "/run/stint", Home: "/home/agent", WorkDir: "/workspace",
		Program: framework.Program{Path: "/opt/codex", Version: "0.169.0"}, NewID: "11111111-1111-4111-8111-111111111111",
	}
}

func TestRecordings(t *testing.T) {
	t.Parallel()
	frameworktest.CheckRecordings(t, codex.Framework{}, func(name string) framework.Input {
		in := input()
		if name == "resume" || name == "lost" || name == "mcp" {
			in.Resume = &framework.Conversation{
				ID:       "01a1ffdb-4276-77b1-95bd-94df1be2addb",
				Baseline: stint.Tokens{InputTokens: 200, CacheReadTokens: 80, OutputTokens: 40, ReasoningTokens: 10},
			}
		}
		return in
	})
}

const wantConfig = `model_provider = "stint"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false

[model_providers.stint]
name = "stint"
base_url = "http://model.stint.internal/v1"
env_key = "STINT_MODEL_KEY"
wire_api = "responses"
request_max_retries = 5
stream_max_retries = 5

[mcp_servers."docs"]
tool_timeout_sec = 600
url = "https://docs.example.com/mcp"
http_headers = {"Authorization" = "Bearer x", "X-Note" = "a \"b\" \\ \u0007é"}

[mcp_servers."local"]
tool_timeout_sec = 600
command = "serve"
args = ["--stdio", "x y"]
env = {"A" = "b"}
`

func TestPrepare(t *testing.T) {
	t.Parallel()
	in := input()
	in.Schema = json.RawMessage(`{"type":"object"}`)
	in.Definition.Instructions = "Be brief."
	in.Model = &framework.Endpoint{Type: "openai-responses", URL: "http://model.stint.internal/v1", Key: "stint-placeholder"}
	in.MCP = []framework.MCPServer{
		{Name: "docs", URL: "https://docs.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer x", "X-Note": "a \"b\" \\ \aé"}},
		{Name: "local", Command: []string{"serve", "--stdio", "x y"}, Env: map[string]string{"A": "b"}},
	}
	p, err := codex.Framework{}.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	p.State = framework.State{}
	want := framework.Plan{
		Argv: strings.Fields("/opt/codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m mock-model -"),
		Env:  map[string]string{"CODEX_HOME": "/home/agent/.codex", "STINT_MODEL_KEY": "stint-placeholder"},
		Files: []framework.File{
			{Path: "/home/agent/.codex/config.toml", Content: []byte(wantConfig)},
			{Path: "/home/agent/.codex/AGENTS.md", Content: []byte("Be brief.")},
		},
		Stdin: []byte("Do it." + framework.SchemaPrompt(in.Schema)), Protocol: true,
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestPrepareResumes(t *testing.T) {
	t.Parallel()
	in := input()
	in.Program.Path, in.Definition.Model = "", ""
	in.Definition.Command = []string{"my-codex", "--profile", "x"}
	in.Resume = &framework.Conversation{ID: "abc"}
	p, err := codex.Framework{}.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(p.Argv, " "), "my-codex --profile x exec resume --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox abc -"; got != want {
		t.Errorf("argv %q, want %q", got, want)
	}
	if config := string(p.Files[0].Content); strings.Contains(config, "model_provider") {
		t.Errorf("a provider without a model:\n%s", config)
	}
	if p.State.Check(".codex/sessions/a.jsonl", []byte("x\n")) == nil {
		t.Error("rollouts are not checked")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"": true, "openai-responses": true, "openai-chat": false, "anthropic": false} {
		err := codex.Framework{}.Check(&stint.Definition{Framework: "codex", Provider: &stint.Provider{Type: kind}})
		if (err == nil) != want {
			t.Errorf("provider %q: %v", kind, err)
		}
	}
}

// TestItems decodes kinds of items that no recording contains.
func TestItems(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", framework.MaxLine+1)
	tests := map[string]struct {
		lines   string
		content string // start of the transcript
		native  string
	}{
		"plan":             {`{"type":"item.started","item":{"id":"i","type":"todo_list","items":[{"text":"one","completed":true},{"text":"two","completed":false}]}}`, "[x] one\n[ ] two\n", "item.started/todo_list"},
		"change":           {`{"type":"item.started","item":{"id":"i","type":"file_change","changes":[{"path":"a.txt","kind":"add"}],"status":"in_progress"}}` + "\n" + `{"type":"item.completed","item":{"id":"i","type":"file_change","changes":[{"path":"a.txt","kind":"add"}],"status":"completed"}}`, "apply_patch add a.txt\nadd a.txt\n", "item.started/file_changeitem.completed/file_change"},
		"search":           {`{"type":"item.started","item":{"id":"i","type":"web_search","query":""}}` + "\n" + `{"type":"item.completed","item":{"id":"i","type":"web_search","query":"tides"}}`, "web_search\ntides\n", "item.started/web_searchitem.completed/web_search"},
		"server's message": {`{"type":"item.completed","item":{"id":"i","type":"mcp_tool_call","server":"s","tool":"t","error":{"message":"It is gone."},"status":"failed"}}`, "It is gone.\n", "item.completed/mcp_tool_call"},
		"future item":      {`{"type":"item.completed","item":{"id":"i","type":"hologram","x":1}}`, "", "item.completed/hologram"},
		"future type":      {`{"type":"hologram"}`, "", "hologram"},
		"no JSON":          {"thread panicked", "thread panicked\n", ""},
		"long line":        {`{"type":"item.completed","item":{"id":"i","aggregated_output":"` + long + `"}}`, "The agent wrote a line of more than 8 MiB", "item.completed"},
		"wrong types":      {`{"type":"item.completed","item":[3]}` + "\n" + `{"type":"turn.completed","usage":7}`, "", "item.completedturn.completed"},
		"nothing":          {"", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frameworktest.CheckDecode(t, codex.Framework{}, input(), tt.lines+"\n", tt.content, tt.native)
		})
	}
}

// An agent that reports too often in a row that it waits for the network is ended.
func TestEndlessWaiting(t *testing.T) {
	t.Parallel()
	wait := `{"type":"error","message":"Reconnecting... waiting for network (Connection failed: error sending request)"}` + "\n"
	d := codex.Framework{}.NewDecoder(input())
	if s := d.Write(framework.Stdout, []byte(strings.Repeat(wait, 9)+`{"type":"turn.started"}`+"\n"+strings.Repeat(wait, 9))); s.Ended {
		t.Error("it was ended although the network came back")
	}
	if s := d.Write(framework.Stdout, []byte(wait)); !s.Ended {
		t.Error("it waits forever")
	}
	if v := d.Verdict(0); v.Completed || !strings.Contains(v.Message, "could not reach its model") {
		t.Errorf("verdict %+v", v)
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	frameworktest.CheckStderr(t, codex.Framework{}, input(), map[string]string{
		"": "It wrote nothing at all",
		"Error: thread/resume failed: no rollout found for thread id 1\n": "Begin a new session",
		"error: unexpected argument '--x' found\n":                        "update it",
	})
}

func FuzzDecoder(f *testing.F) { frameworktest.Fuzz(f, codex.Framework{}, input()) }

// BenchmarkDecode decodes the output of a long run.
func BenchmarkDecode(b *testing.B) {
	var stream strings.Builder
	output := strings.Repeat("ok  \\texample.com/a/b\\t0.01s\\nerror: \\\"x\\\" is not used\\n", 200)
	for i := range 40 {
		fmt.Fprintf(&stream, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"I am going to look at the tests now, and then at what they say."}}`+"\n", 2*i)
		fmt.Fprintf(&stream, `{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go test ./...'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`+"\n", 2*i+1)
		fmt.Fprintf(&stream, `{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go test ./...'","aggregated_output":"%s","exit_code":1,"status":"failed"}}`+"\n", 2*i+1, output)
	}
	frameworktest.Bench(b, codex.Framework{}, input(), stream.String())
}
