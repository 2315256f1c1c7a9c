package claudecode_test

import (
	"os"
	"testing"

	"github.com/google/uuid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/claudecode"
	"github.com/stint-dev/stint/internal/framework/frameworktest"
	"github.com/stint-dev/stint/internal/testkit/agentstest"
)

func TestMain(m *testing.M) {
	frameworktest.ServeMCP()
	os.Exit(m.Run())
}

// retries limits the retries of requests to the model, so that scenarios with errors
// end soon.
var retries = map[string]string{"CLAUDE_CODE_MAX_RETRIES": "1"}

var scenarios = map[string]frameworktest.Scenario{
	"text":        {Prompt: "[[slow: 3]][[say: One two three.]]", Want: []string{"One two three."}},
	"tool":        {Prompt: "[[think: Let me think about it.]][[run: echo hi > out.txt; cat out.txt]]", Want: []string{"Let me think about it.\n", "$ echo hi > out.txt; cat out.txt\nhi\n", "Done. user_turns=1"}},
	"failed_tool": {Prompt: "[[run: cat nowhere]]", Want: []string{"No such file"}},
	"plan":        {Prompt: `[[tool: TodoWrite {"todos":[{"content":"one","status":"completed","activeForm":"doing one"},{"content":"two","status":"in_progress","activeForm":"doing two"}]}]]`, Want: []string{"[x] one\n[~] two\n"}},
	"subagent":    {Prompt: `[[tool: Agent {"description":"sub","prompt":"Say hello.","subagent_type":"general-purpose"}]]`, Want: []string{"Agent sub\n"}},
	"mcp":         {Prompt: `[[tool: mcp__hello__greet {"name":"Ann"}]]`, Continues: true, Always: true, Change: func(in *framework.Input) { in.MCP = []framework.MCPServer{frameworktest.MCP()} }, Want: []string{"Hello, Ann.\n", "user_turns=2"}},
	"resume":      {Prompt: "And again.", Continues: true, Want: []string{"user_turns=2"}},
	"lost":        {Prompt: "Hi.", Failed: true, Change: func(in *framework.Input) { in.Resume = &framework.Conversation{ID: lostID} }, Want: []string{"No conversation found"}},
	"status_400":  {Prompt: "[[http: 400]]", Failed: true, Options: frameworktest.Options{Env: retries}, Want: []string{"400"}},
	"status_401":  {Prompt: "[[http: 401]]", Failed: true, Options: frameworktest.Options{Env: retries}, Want: []string{"401"}},
	"status_404":  {Prompt: "[[http: 404]]", Failed: true, Options: frameworktest.Options{Env: retries}},
	"status_429":  {Prompt: "[[http: 429]]", Failed: true, Options: frameworktest.Options{Env: retries}, Want: []string{"429"}},
	"status_500":  {Prompt: "[[http: 500]]", Failed: true, Options: frameworktest.Options{Env: retries}, Want: []string{"500"}},
	"status_529":  {Prompt: "[[http: 529]]", Failed: true, Options: frameworktest.Options{Env: retries}, Want: []string{"529"}},
	"cut":         {Prompt: "[[say: It breaks off.]][[cut]]", Failed: true, Options: frameworktest.Options{Env: retries}},
	"refused":     {Prompt: "Hi.", Failed: true, Options: frameworktest.Options{Env: retries}, Change: func(in *framework.Input) { in.Model.URL = "http://127.0.0.1:1" }, Want: []string{"Unable to connect"}},
	"max_turns":   {Prompt: "[[run: echo x]]", Failed: true, Change: func(in *framework.Input) { in.Limits.MaxTurns = 1 }},
	"max_budget":  {Prompt: "[[run: echo x]]", Failed: true, Change: func(in *framework.Input) { in.Limits.MaxCostUSD = 0.0001 }},
	"interrupted": {Prompt: "[[run: echo started; sleep 60]]", Failed: true, Always: true, Options: frameworktest.Options{Stop: "sleep 60"}, Want: []string{"$ echo started; sleep 60\n"}},
	"killed":      {Prompt: "[[run: echo started; sleep 60]]", Failed: true, Options: frameworktest.Options{Kill: "sleep 60"}},
	"bad_flag":    {Prompt: "Hi.", Failed: true, Change: func(in *framework.Input) { in.Definition.Command = []string{"claude", "--bogus-flag"} }, Want: []string{"unknown option"}},
}

const lostID = "21111111-1111-4111-8111-111111111111"

// TestRealProgram plays the scenarios with the real Claude Code program.
func TestRealProgram(t *testing.T) {
	t.Parallel()
	program := agentstest.Claude(t)
	frameworktest.Play(t, claudecode.Framework{}, scenarios, func(model string) framework.Input {
		in := input()
		in.Definition = &stint.Definition{Framework: catalog.ClaudeCode.Name, Model: "claude-sonnet-4-5"}
		in.Program.Path, in.NewID = program, uuid.NewString()
		in.Model = &framework.Endpoint{Type: stint.ProviderAnthropic, URL: model, Key: "stint-placeholder-of-a-key"}
		return in
	})
}
