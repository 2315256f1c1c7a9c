package codex_test

import (
	"os"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/codex"
	"github.com/stint-dev/stint/internal/framework/frameworktest"
	"github.com/stint-dev/stint/internal/testkit/agentstest"
)

func TestMain(m *testing.M) {
	frameworktest.ServeMCP()
	os.Exit(m.Run())
}

var scenarios = map[string]frameworktest.Scenario{
	"text":        {Prompt: "[[slow: 3]][[say: One two three.]]", Want: []string{"One two three.\n"}},
	"tool":        {Prompt: "[[think: Let me think about it.]][[run: echo hi > out.txt; cat out.txt]]", Want: []string{"$ echo hi > out.txt; cat out.txt\nhi\n", "Done. user_turns="}},
	"failed_tool": {Prompt: "[[run: cat nowhere]]", Want: []string{"No such file"}},
	"mcp":         {Prompt: `[[tool: greet {"name":"Ann"}]]`, Continues: true, Always: true, Change: func(in *framework.Input) { in.MCP = []framework.MCPServer{frameworktest.MCP()} }, Want: []string{"mcp__hello__greet\nHello, Ann.\n", "user_turns=2"}},
	"mcp_failed":  {Prompt: `[[tool: greet {"name":""}]]`, Change: func(in *framework.Input) { in.MCP = []framework.MCPServer{frameworktest.MCP()} }},
	"resume":      {Prompt: "And again.", Continues: true, Want: []string{"Hello. user_turns="}},
	"lost":        {Prompt: "Hi.", Failed: true, Change: func(in *framework.Input) { in.Resume = &framework.Conversation{ID: lostID} }, Want: []string{"no rollout found"}},
	"status_400":  {Prompt: "[[http: 400]]", Failed: true},
	"status_401":  {Prompt: "[[http: 401]]", Failed: true, Want: []string{"401"}},
	"status_404":  {Prompt: "[[http: 404]]", Failed: true},
	"status_429":  {Prompt: "[[http: 429]]", Failed: true},
	"status_500":  {Prompt: "[[http: 500]]", Failed: true},
	"cut":         {Prompt: "[[say: It breaks off.]][[cut]]", Failed: true},
	"killed":      {Prompt: "[[run: echo started; sleep 60]]", Failed: true, Options: frameworktest.Options{Kill: "sleep 60"}},
	"no_network":  {Prompt: "Hi.", Failed: true, Change: func(in *framework.Input) { in.Model.URL = "http://127.0.0.1:1/v1" }, Options: frameworktest.Options{Kill: "waiting for network"}},
	"bad_flag":    {Prompt: "Hi.", Failed: true, Change: func(in *framework.Input) { in.Definition.Command = []string{"codex", "--bogus-flag"} }, Want: []string{"unexpected argument"}},
}

const lostID = "01a1ffdb-4276-77b1-95bd-94df1be2aaaa"

// TestRealProgram plays the scenarios with the real Codex program.
func TestRealProgram(t *testing.T) {
	t.Parallel()
	program := agentstest.Codex(t)
	frameworktest.Play(t, codex.Framework{}, scenarios, func(model string) framework.Input {
		in := input()
		in.Definition = &stint.Definition{Framework: catalog.Codex.Name, Model: "mock-model"}
		in.Program.Path = program
		in.Model = &framework.Endpoint{Type: stint.ProviderResponses, URL: model + "/v1", Key: "stint-placeholder-of-a-key"}
		return in
	})
}
