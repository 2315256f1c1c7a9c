package agents_test

import (
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/framework/fakecli"
)

func TestMain(m *testing.M) {
	fakecli.Main()
	installation.Parallel(6) // an agent needs a processor for about a second, and mostly waits
	installation.Main(m)
}

// testCase is a test that runs once for each kind of agent, each time in a new
// organisation.
type testCase struct {
	name string
	run  func(*tenant)
}

var testCases = []testCase{
	{"refused requests", refusedRequests},
	{"temporary fault", temporaryFault},
	{"continued conversation", continuedConversation},
	{"runs of other agents", runsOfOtherAgents},
	{"damaged conversation", damagedConversation},
	{"cancelled tool", cancelledTool},
	{"killed program", killedProgram},
	{"result schema", resultSchema},
	{"external MCP server", externalServer},
	{"secret key", secretKey},
	{"budget", budget},
	{"turn limit", turnLimit},
	{"long prompt", longPrompt},
	{"tool and result", toolAndResult},
}

func TestAgents(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, k := range kinds {
		f := startFaultyRuns(h.tenant(t, k))
		t.Run("faulty/"+k.name, func(t *testing.T) {
			t.Parallel()
			f.check(t)
		})
	}
	for _, p := range testCases {
		for _, k := range kinds {
			t.Run(p.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				p.run(h.tenant(t, k))
			})
		}
	}
}
