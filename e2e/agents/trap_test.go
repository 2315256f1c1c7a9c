package agents_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// traps are ways in which the fake agent misbehaves, with the expected outcomes of the
// runs.
var traps = []struct {
	name   string
	run    stint.NewRun // the test adds the agent, and a prompt that names the trap
	status stint.Status
	reason stint.Reason
	text   string // part of the error, or of the result if the run completed
	logged string // part of an entry of the system log
}{
	{name: "silent", status: stint.Failed, reason: stint.ReasonExitCode, text: "without a result (exit code 0)"},
	{name: "crash", status: stint.Failed, reason: stint.ReasonExitCode, text: "It fell over."},
	{name: "refused", status: stint.Failed, reason: stint.ReasonExitCode, text: "refused the key (401)"},
	{name: "noise", status: stint.Completed, text: "Hello. user_turns=1"},
	{name: "longline", status: stint.Completed, text: "Hello. user_turns=1"},
	{name: "hang", status: stint.Completed, text: "Hello. user_turns=1", logged: "did not exit after its terminal event"},
	{name: "orphan", status: stint.Completed, text: "orphan "},
	{name: "retry", run: stint.NewRun{Timeout: "2s"}, status: stint.TimedOut, reason: stint.ReasonTimeLimit, text: "time limit of 2s"},
	{name: "wait", run: stint.NewRun{Limits: &stint.Limits{IdleTimeout: "1s"}}, status: stint.TimedOut, reason: stint.ReasonIdleLimit, text: "limits.idleTimeout"},
	{name: "deaf", run: stint.NewRun{Limits: &stint.Limits{IdleTimeout: "1s"}}, status: stint.TimedOut, reason: stint.ReasonIdleLimit, text: "limits.idleTimeout"},
}

func TestTraps(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	installation.Check(t, err)
	h := serveWith(t, "STINT_CLAUDE_CODE_BIN="+self, "STINT_CODEX_BIN="+self)
	for _, trap := range traps {
		for _, k := range kinds[:2] {
			t.Run(trap.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				w := h.tenant(t, k)
				w.fake()
				n := trap.run
				n.Agent, n.Prompt = "fake", "fake:"+trap.name
				r := w.ended(w.create(n).ID)
				text := installation.Value(r.Error)
				if trap.status == stint.TimedOut {
					text = installation.Value(r.StatusMessage)
				}
				if trap.status == stint.Completed {
					installation.Check(t, json.Unmarshal(r.Result, &text))
				}
				if r.Status != trap.status || installation.Value(r.StatusReason) != trap.reason || !strings.Contains(text, trap.text) {
					t.Errorf("the run is %s (%s) with the text %q; %s", r.Status, installation.Value(r.StatusReason), text, w.story(r.ID))
				}
				if !slices.ContainsFunc(w.logs(r.ID, stint.LogSystem), func(e stint.LogEntry) bool { return strings.Contains(e.Message, trap.logged) }) {
					t.Errorf("the log lacks the message; %s", w.story(r.ID))
				}
			})
		}
	}
	for _, k := range kinds[:2] {
		t.Run("cancelled/"+k.name, func(t *testing.T) {
			t.Parallel()
			h.tenant(t, k).checkForcedEnd()
		})
	}
	t.Cleanup(func() {
		w := &tenant{T: t}
		w.waitUntil("the end of all agent processes", func() bool { return len(processes("stint-fake-orphan")) == 0 })
	})
}

// fake creates an agent for the fake program, which is the test binary.
func (w *tenant) fake() {
	w.Helper()
	w.agent("fake", object{"environment": object{"GORACE": "atexit_sleep_ms=0"}})
}

// checkForcedEnd cancels a run of an agent that ignores signals, and checks that the
// run ends and that its conversation can be continued.
func (w *tenant) checkForcedEnd() {
	w.fake()
	r := w.create(stint.NewRun{Agent: "fake", Prompt: "fake:deaf"})
	w.item(r.ID, func(o stint.OutputData) bool { return strings.Contains(o.Content, "Waiting.") })
	_, err := w.client.Runs.Cancel(w.Context(), r.ID)
	installation.Check(w, err)
	if r = w.ended(r.ID); r.Status != stint.Cancelled {
		w.Fatalf("the run is %s; %s", r.Status, w.story(r.ID))
	}
	w.waitUntil("the checkpoint of the cancelled run", func() bool {
		r, err = w.client.Runs.Get(w.Context(), r.ID)
		installation.Check(w, err)
		return r.CheckpointID != nil
	})
	if next := w.run(stint.NewRun{SessionID: r.SessionID, Prompt: "Go on."}); string(next.Result) != `"Hello. user_turns=2"` {
		w.Errorf("the result of the next run is %s; %s", next.Result, w.story(next.ID))
	}
}

// TestMissingPrograms checks that definitions are refused with helpful errors if the
// programs of the agents are not installed on the server. The program of an ACP agent is
// the definition's command, so its runs fail.
func TestMissingPrograms(t *testing.T) {
	t.Parallel()
	h := serveWith(t, "PATH="+t.TempDir()+":/usr/sbin:/sbin", "STINT_CODEX_BIN=/nowhere/codex")
	all := kinds
	for i, want := range []string{"npm install -g @anthropic-ai/claude-code", "STINT_CODEX_BIN", "claude-agent-acp"} {
		t.Run(all[i].name, func(t *testing.T) {
			t.Parallel()
			w := h.tenant(t, all[i])
			err := w.tryPush(w.definition("missing"))
			if all[i].name == "acp" {
				installation.Check(t, err)
				w.fails(stint.NewRun{Agent: "missing", Prompt: "Hello."}, stint.ReasonSetupFailed, want)
			} else if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the definition was not refused with %q: %v", want, err)
			}
			list, err := w.client.Frameworks(t.Context())
			installation.Check(t, err)
			for _, f := range list {
				if f.Name == all[i].name && f.Name != "acp" && (f.Available || !strings.Contains(f.Reason, want)) {
					t.Errorf("the framework is %+v", f)
				}
			}
		})
	}
}
