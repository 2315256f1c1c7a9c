package claudecode_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/claudecode"
	"github.com/stint-dev/stint/internal/framework/frameworktest"
)

func input() framework.Input {
	return framework.Input{
		Definition: &stint.Definition{Framework: "claude-code", Model: "claude-sonnet-4-5", Provider: &stint.Provider{APIKey: &stint.SecretRef{Secret: "MODEL_KEY"}}},
		Prompt:     "Do it.", PromptPath: "/run/stint/prompt", RunDir: "/run/stint", Home: "/home/agent", WorkDir: "/workspace",
		Program: framework.Program{Path: "/opt/claude", Version: "2.1.197"}, NewID: "11111111-1111-4111-8111-111111111111",
	}
}

func TestRecordings(t *testing.T) {
	t.Parallel()
	frameworktest.CheckRecordings(t, claudecode.Framework{}, func(name string) framework.Input {
		in := input()
		in.Limits = stint.Limits{MaxTurns: 1, MaxCostUSD: 0.0001}
		if name == "resume" || name == "lost" || name == "mcp" {
			in.Resume = &framework.Conversation{ID: "21111111-1111-4111-8111-111111111111"}
		}
		return in
	})
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	in := input()
	in.Schema = json.RawMessage(`{"type":"object"}`)
	in.Limits = stint.Limits{MaxTurns: 7, MaxCostUSD: 0.5}
	in.Definition.Instructions = "Be brief."
	in.Definition.Command = []string{"claude", "--effort", "low"}
	in.Definition.Provider.BaseURL = "https://models.example.com"
	in.Model = &framework.Endpoint{Type: "anthropic", URL: "http://model.stint.internal", Key: "stint-placeholder"}
	in.MCP = []framework.MCPServer{
		{Name: "docs", URL: "https://docs.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer x"}},
		{Name: "local", Command: []string{"serve", "--stdio"}, Env: map[string]string{"A": "b"}},
	}
	p, err := claudecode.Framework{}.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	wantArgv := strings.Fields("/opt/claude --effort low -p --output-format stream-json --input-format stream-json --verbose --include-partial-messages --dangerously-skip-permissions --strict-mcp-config --mcp-config /run/stint/claude-mcp.json --session-id 11111111-1111-4111-8111-111111111111 --model claude-sonnet-4-5 --max-turns 7 --max-budget-usd 0.5")
	if diff := cmp.Diff(wantArgv, p.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	wantEnv := map[string]string{
		"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "6", "CLAUDE_CODE_ENABLE_TASKS": "0", "MCP_CONNECTION_NONBLOCKING": "0",
		"ANTHROPIC_BASE_URL": "http://model.stint.internal", "ANTHROPIC_API_KEY": "stint-placeholder",
		"ANTHROPIC_DEFAULT_HAIKU_MODEL": "claude-sonnet-4-5", "ANTHROPIC_DEFAULT_SONNET_MODEL": "claude-sonnet-4-5", "ANTHROPIC_DEFAULT_OPUS_MODEL": "claude-sonnet-4-5",
	}
	if diff := cmp.Diff(wantEnv, p.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	var servers map[string]map[string]map[string]any
	if err := json.Unmarshal(p.Files[0].Content, &servers); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{
		"docs":  {"type": "http", "url": "https://docs.example.com/mcp", "headers": map[string]any{"Authorization": "Bearer x"}},
		"local": {"type": "stdio", "command": "serve", "args": []any{"--stdio"}, "env": map[string]any{"A": "b"}},
	}
	if diff := cmp.Diff(want, servers["mcpServers"]); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(framework.File{Path: "/home/agent/.claude/CLAUDE.md", Content: []byte("Be brief.")}, p.Files[1]); diff != "" {
		t.Errorf("instructions (-want +got):\n%s", diff)
	}
	var message struct{ Message struct{ Content string } }
	if err := json.Unmarshal(p.Stdin, &message); err != nil || !strings.HasPrefix(message.Message.Content, "Do it.\n\nYour last message") || !strings.HasSuffix(message.Message.Content, `{"type":"object"}`) {
		t.Errorf("prompt %q, %v", message.Message.Content, err)
	}
	if !p.KeepStdinOpen || !p.Protocol || len(p.Files) != 2 {
		t.Errorf("plan %+v", p)
	}
}

func TestPrepareResumes(t *testing.T) {
	t.Parallel()
	in := input()
	in.Program.Path = ""
	in.Resume = &framework.Conversation{ID: "abc"}
	p, err := claudecode.Framework{}.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Join(p.Argv, " "); !strings.HasPrefix(line, "claude -p ") || !strings.Contains(line, " --resume abc ") || strings.Contains(line, "--session-id") {
		t.Errorf("argv %s", line)
	}
	for _, name := range []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"} {
		if _, ok := p.Env[name]; ok {
			t.Errorf("%s is set without a model", name)
		}
	}
	check := p.State.Check
	if check("a/b.jsonl", []byte("x\n")) == nil || check("a/b.jsonl", []byte("{}\n{\"a")) != nil || check("a/b.txt", []byte("x\n")) != nil {
		t.Error("transcripts are not checked as they should be")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"": true, "anthropic": true, "openai-chat": false, "offline": false} {
		err := claudecode.Framework{}.Check(&stint.Definition{Framework: "claude-code", Provider: &stint.Provider{Type: kind}})
		if (err == nil) != want {
			t.Errorf("provider %q: %v", kind, err)
		}
	}
}

// TestOddOutput decodes output that no recording contains.
func TestOddOutput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", framework.MaxLine+1)
	tests := map[string]struct {
		line    string
		content string // start of the transcript
		native  string
	}{
		"no JSON":            {"npm warn something\n", "npm warn something\n", ""},
		"another object":     {`{"level":"info"}` + "\n", `{"level":"info"}` + "\n", ""},
		"future type":        {`{"type":"hologram","subtype":"x","a":1}` + "\n", "", "hologram/x"},
		"long line":          {`{"type":"user","message":{"content":"` + long + `"}}` + "\n", "The agent wrote a line of more than 8 MiB", "user"},
		"long text":          {long + "\n", "xxxx", ""},
		"long final message": {`{"type":"result","subtype":"success","is_error":false,"result":"` + long + `"}` + "\n", "The agent wrote a line of more than 8 MiB", "result/success"},
		"wrong types":        {`{"type":"assistant","message":{"id":7,"content":"x"},"error":[]}` + "\n", "", "assistant"},
		"broken event":       {`{"type":"stream_event","event":{"type":"content_block_delta"}}` + "\n", "", ""},
		"wrong todos":        {`{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"TodoWrite","input":{"todos":3}}]}}` + "\n", "TodoWrite\n", "assistant"},
		"control request":    {`{"type":"control_request","request_id":"7","request":{"subtype":"can_use_tool"}}` + "\n", "", "control_request"},
		"nothing":            {"\n", "", ""},
		"torn":               {`{"type":"assistant","message":{"id":"m"`, "", "torn"},
		"image of a tool":    {`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{}},{"type":"text","text":"a cat"}]}]}}` + "\n", "[image]\na cat\n", "user"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := frameworktest.CheckDecode(t, claudecode.Framework{}, input(), tt.line, tt.content, tt.native)
			if answered := strings.Contains(string(s.Send), `"request_id":"7"`); answered != (name == "control request") {
				t.Errorf("sent %q", s.Send)
			}
			if v := d.Verdict(0); v.Completed != (name == "long final message") {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	frameworktest.CheckStderr(t, claudecode.Framework{}, input(), map[string]string{
		"": "It wrote nothing at all",
		"No conversation found with session ID: 1\n": "Begin a new session",
		"error: unknown option '--x'\n":              "update it",
		"Error: Session ID 1 is already in use.\n":   "start the run again",
	})
}

func FuzzDecoder(f *testing.F) { frameworktest.Fuzz(f, claudecode.Framework{}, input()) }

// BenchmarkDecode decodes the output of a long run: pieces of text, tool calls that read
// files, and their results.
func BenchmarkDecode(b *testing.B) {
	var stream strings.Builder
	file := strings.Repeat("func f() error {\\n\\treturn fmt.Errorf(\\\"x: %w\\\", err)\\n}\\n", 300)
	for i := range 20 {
		for range 40 {
			fmt.Fprintf(&stream, `{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words of it "}},"session_id":"11111111-1111-4111-8111-111111111111","parent_tool_use_id":null,"uuid":"347c4959-4cb6-4002-8fd6-ed3829cade62"}`+"\n")
		}
		fmt.Fprintf(&stream, `{"type":"assistant","message":{"id":"msg_%d","model":"m","content":[{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"file_path":"/workspace/a.go"}}]},"parent_tool_use_id":null}`+"\n", i, i)
		fmt.Fprintf(&stream, `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":"%s"}]},"parent_tool_use_id":null,"tool_use_result":{"type":"text","file":{"filePath":"/workspace/a.go","content":"%s"}}}`+"\n", i, file, file)
	}
	frameworktest.Bench(b, claudecode.Framework{}, input(), stream.String())
}
