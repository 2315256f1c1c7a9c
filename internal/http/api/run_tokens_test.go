package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// runToken returns a token with which the agent of the job's run may call the API.
func (j *job) runToken(depth int) string {
	j.w.Helper()
	token, err := j.w.auth.RunToken(auth.RunGrant{OrgID: j.w.caller.OrgID, RunID: j.run.ID, Epoch: j.at.Epoch, Depth: depth}, time.Hour)
	if err != nil {
		j.w.Fatal(err)
	}
	return token
}

func TestRunsOfAgents(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	first := w.newRun("reviewer", "first")
	j := w.claim()
	token := j.runToken(0)
	c := w.tools(token)
	var child started
	c.use("run_agent", args{"agent": "reviewer", "prompt": "second"}, &child)
	var run stint.Run
	c.use("get_run", args{"id": child.ID}, &run)
	if run.ParentRunID == nil || *run.ParentRunID != first.ID || run.SessionID == first.SessionID {
		t.Errorf("the run of an agent is %+v", run)
	}
	c.checkRefused("run_agent", args{"sessionId": first.SessionID, "prompt": "x"}, first.SessionID, "would never start")

	below := w.claim()
	if below.run.ID != child.ID || below.depth != 1 {
		t.Fatalf("%s is claimed at depth %d, want %s at 1", below.run.ID, below.depth, child.ID)
	}
	c = w.tools(below.runToken(1))
	c.checkRefused("run_agent", args{"sessionId": first.SessionID, "prompt": "x"}, "would never start")
	c.checkRefused("run_agent", args{"sessionId": child.SessionID, "prompt": "x"}, "would never start")
	w.tools(below.runToken(2)).use("run_agent", args{"agent": "reviewer", "prompt": "x"}, &started{})
	w.tools(below.runToken(3)).checkRefused("run_agent", args{"agent": "reviewer", "prompt": "x"}, "too deep", "max-depth")
	c.use("cancel_run", args{"id": child.ID}, &run)
	if run.Status != stint.Cancelled {
		t.Errorf("a run that cancels itself is %s", run.Status)
	}

	another := j.runToken(0)
	j.finish(stint.Completed)
	for _, invalid := range []string{token, another, below.runToken(1)} {
		if a := w.do(request{method: "POST", path: "/mcp", token: invalid, body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`}); a.StatusCode != http.StatusUnauthorized || a.errorOf() != "authentication_error invalid_api_key" {
			t.Errorf("the token of an ended run returned %d %s", a.StatusCode, a.body)
		}
	}
}

func TestRoutesOfRunTokens(t *testing.T) {
	w := newWorld(t)
	words := w.fixture()
	j := w.claim()
	words["agentToken"] = j.runToken(0)
	words["otherEpoch"] = (&job{w: w, run: j.run}).runToken(0)
	var rows []row
	for path, status := range map[string]int{
		"/v1/runs": 200, "/v1/runs/{done}": 200, "/v1/runs/{done}/logs": 200, "/v1/agents": 200, "/v1/agents/{agent}/versions/v1": 200,
		"/v1/volumes/{volume}/versions/1/files/a.txt": 200, "/v1/artifacts": 200,
		"/v1/me": 403, "/v1/usage": 403, "/v1/activity": 403, "/v1/sessions": 403, "/v1/checkpoints/{checkpoint}": 403, "/v1/tokens": 403, "/v1/tokens/{token}": 403, "/v1/secrets": 403,
		"/v1/volumes/{volume}/download": 403, "/v1/runs/{done}/metrics": 403,
	} {
		rows = append(rows, row{name: path, method: "GET", path: path, token: "agentToken", status: status})
	}
	w.run(t, words, append(rows,
		row{"a token", "POST", "/v1/tokens", "agentToken", nil, `{"name":"x"}`, 403, []string{scope}, nil},
		row{"an agent", "POST", "/v1/agents", "agentToken", nil, `{"name":"x","framework":"shell"}`, 403, []string{scope}, nil},
		row{"delete an agent", "DELETE", "/v1/agents/{agent}", "agentToken", nil, nil, 403, []string{scope}, nil},
		row{"a stream token", "POST", "/v1/runs/{run}/stream-token", "agentToken", nil, nil, 403, []string{scope}, nil},
		row{"another epoch of the run", "GET", "/v1/runs", "otherEpoch", nil, nil, 401, []string{badKey}, nil},
	))
	w.pass(time.Hour)
	if a := w.do(request{method: "GET", path: "/v1/runs", token: words["agentToken"]}); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("the expired token returned %d", a.StatusCode)
	}
}
