package contract_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
)

var mcpCases = []testCase{
	{"tools run an agent and read its results", toolsRunAgent},
	{"tools cancel a run", toolsCancel},
}

// bearer is an HTTP transport that adds the tenant's token to requests.
type bearer struct{ w *tenant }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.w.token)
	return b.w.client.Transport.RoundTrip(r)
}

// toolbox opens a session with the MCP server of the service. progress receives the
// progress messages of tool calls.
func (w *tenant) toolbox() (session *mcp.ClientSession, progress chan string) {
	w.Helper()
	progress = make(chan string, 100)
	c := mcp.NewClient(&mcp.Implementation{Name: "contract", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	session, err := c.Connect(w.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.host.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{w}}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	check(w, err)
	w.Cleanup(func() { _ = session.Close() })
	return session, progress
}

// callTool calls a tool and decodes its structured result into the value that into
// points to. It ends the test if the call fails.
func (w *tenant) callTool(s *mcp.ClientSession, name string, arguments object, into any) {
	w.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken(name)
	res, err := s.CallTool(w.Context(), params)
	check(w, err)
	raw, err := json.Marshal(res)
	check(w, err)
	if res.IsError {
		w.Fatalf("%s returned %s", name, raw)
	}
	response := struct{ StructuredContent any }{into}
	decode(w, raw, &response)
}

func toolsRunAgent(w *tenant) {
	s, progress := w.toolbox()
	var run struct{ ID, SessionID string }
	w.callTool(s, "run_agent", object{"agent": "shell", "prompt": "echo $WHO; echo made > f.txt", "variables": object{"WHO": "the tool"}, "artifactName": "out"}, &run)
	var waited struct {
		Ended bool
		Run   stint.Run
	}
	for !waited.Ended {
		w.callTool(s, "wait_run", object{"id": run.ID, "timeoutSeconds": 30}, &waited)
	}
	w.equal("status", stint.Completed, waited.Run.Status)
	select {
	case <-progress:
	case <-time.After(waitLimit):
		w.Error("no progress was reported")
	}
	var output struct {
		Text, Next string
		More       bool
	}
	w.callTool(s, "run_output", object{"id": run.ID}, &output)
	if !strings.Contains(output.Text, "the tool\n") || output.More {
		w.Errorf("the output is %+v", output)
	}
	var file struct{ Text string }
	w.callTool(s, "read_artifact_file", object{"artifact": "out", "path": "f.txt"}, &file)
	w.equal("file", "made\n", file.Text)
	w.callTool(s, "run_agent", object{"sessionId": run.SessionID, "prompt": "true"}, &run)
	w.awaitStatus(run.ID, stint.Completed)
}

func toolsCancel(w *tenant) {
	s, _ := w.toolbox()
	r := w.startRun(object{"prompt": "sleep 60"})
	var cancelled stint.Run
	w.callTool(s, "cancel_run", object{"id": r.ID}, &cancelled)
	w.equal("status", stint.Cancelled, cancelled.Status)
}
