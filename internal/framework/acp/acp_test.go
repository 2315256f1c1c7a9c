package acp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/acp"
)

func TestPrepare(t *testing.T) {
	t.Parallel()
	const claude = "IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_MAX_RETRIES=6 MCP_CONNECTION_NONBLOCKING=0"
	anthropic := &framework.Endpoint{Type: stint.ProviderAnthropic, URL: "http://m", Key: "k"}
	openai := &framework.Endpoint{Type: stint.ProviderResponses, URL: "http://m/v1", Key: "k"}
	tests := map[string]struct {
		command []string
		program string
		model   string
		at      *framework.Endpoint
		argv    string
		env     string
		keep    string
	}{
		"claude": {
			command: []string{"claude-agent-acp"}, at: anthropic, model: "m-1", argv: "claude-agent-acp", keep: ".claude/projects",
			env: claude + " ANTHROPIC_BASE_URL=http://m ANTHROPIC_API_KEY=k ANTHROPIC_MODEL=m-1",
		},
		"claude, looked up":             {command: []string{"claude-agent-acp", "-x"}, program: "/opt/stint/programs/c", argv: "/opt/stint/programs/c -x", env: claude, keep: ".claude/projects"},
		"claude, by its runner":         {command: []string{"node", "--no-warnings", "/opt/claude-agent-acp/dist/index.js"}, argv: "node --no-warnings /opt/claude-agent-acp/dist/index.js", env: claude, keep: ".claude/projects"},
		"gemini":                        {command: []string{"/usr/bin/gemini", "--acp"}, argv: "/usr/bin/gemini --acp", env: "GEMINI_CLI_NO_RELAUNCH=true", keep: ".gemini/tmp .gemini/projects.json"},
		"opencode":                      {command: []string{"opencode", "acp"}, argv: "opencode acp", env: "OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1", keep: ".local/share/opencode"},
		"unknown vendor keeps its home": {command: []string{"mine", "claude"}, at: openai, model: "m-1", argv: "mine claude", env: "OPENAI_BASE_URL=http://m/v1 OPENAI_API_KEY=k OPENAI_MODEL=m-1"},
		"the agent's own model":         {command: []string{"mine"}, at: openai, argv: "mine", env: "OPENAI_BASE_URL=http://m/v1 OPENAI_API_KEY=k"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := acp.Framework{}.Prepare(framework.Input{
				Definition: &stint.Definition{Command: tt.command, Model: tt.model}, Program: framework.Program{Path: tt.program}, Model: tt.at,
			})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for kv := range strings.FieldsSeq(tt.env) {
				name, value, _ := strings.Cut(kv, "=")
				want[name] = value
			}
			if diff := cmp.Diff(want, plan.Env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{tt.argv, tt.keep}, []string{strings.Join(plan.Argv, " "), strings.Join(plan.State.Keep, " ")}); diff != "" {
				t.Errorf("command and state (-want +got):\n%s", diff)
			}
			if !plan.KeepStdinOpen || !plan.Protocol || !strings.HasPrefix(string(plan.Stdin), `{"jsonrpc":"2.0","id":1,"method":"initialize"`) {
				t.Errorf("the talk begins with %q, open %v, protocol %v", plan.Stdin, plan.KeepStdinOpen, plan.Protocol)
			}
		})
	}
}

// Changing the environment of one plan must not change the environment of another
// plan.
func TestPlansAreIndependent(t *testing.T) {
	t.Parallel()
	in := framework.Input{Definition: &stint.Definition{Command: []string{"claude"}}}
	first, _ := acp.Framework{}.Prepare(in)
	first.Env["LEAK"] = "1"
	second, _ := acp.Framework{}.Prepare(in)
	if _, leaks := second.Env["LEAK"]; leaks {
		t.Error("two plans share one environment")
	}
}

func TestCheckRefusesOffline(t *testing.T) {
	t.Parallel()
	for kind, refused := range map[string]bool{stint.ProviderOffline: true, stint.ProviderChat: false} {
		err := acp.Framework{}.Check(&stint.Definition{Command: []string{"a"}, Provider: &stint.Provider{Type: kind}})
		if user, is := errors.AsType[*stint.Error](err); is != refused || refused && user.Param != "provider.type" {
			t.Errorf("provider %s: %v", kind, err)
		}
	}
	if _, err := (acp.Framework{}).Prepare(framework.Input{Definition: &stint.Definition{}}); err == nil {
		t.Error("a plan was made without a command")
	}
}

func TestTranscriptCheck(t *testing.T) {
	t.Parallel()
	plan, _ := acp.Framework{}.Prepare(framework.Input{Definition: &stint.Definition{Command: []string{"claude-agent-acp"}}})
	tests := map[string]struct{ name, content, want string }{
		"whole":                   {"a/b.jsonl", "{\"a\":1}\n{}\n", ""},
		"empty lines":             {"a/b.jsonl", "{}\n\n{}", ""},
		"cut":                     {"a/b.jsonl", "{}\n{\"a\":", "line 2 is not JSON"},
		"files of another vendor": {"a/tool-results/x.txt", "{\"a\":", ""},
	}
	for name, tt := range tests {
		got := ""
		if err := plan.State.Check(tt.name, []byte(tt.content)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
