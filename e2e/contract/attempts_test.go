package contract_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// attemptCases test the retries of runs.
var attemptCases = []testCase{
	{"a failed run starts again", startsAgain},
	{"a retry from the start", startsAgainFromStart},
	{"the last attempt fails", lastAttempt},
	{"a time limit starts the run again", startsAgainAfterTimeLimit},
	{"cancel between two attempts", cancelBetweenAttempts},
	{"a paused run blocks its session", pausedRunBlocks},
	{"messages of endings", messages},
	{"a result that does not match", mismatch},
	{"invalid retries", invalidRetries},
}

// counting is a script that counts its attempts in a file of the workspace and in one of
// the home folder, and fails before the third one.
const counting = `echo x >> tries; echo x >> ~/tries; n=$(wc -l < tries); echo "$n $(wc -l < ~/tries)"; [ $n -ge 3 ] || { echo "no luck" >&2; exit 4; }`

func startsAgain(w *tenant) {
	w.agent("stubborn", object{"retries": object{"max": 5, "on": []string{"exit_code"}, "backoff": object{"initial": "300ms", "factor": 2}}})
	r := w.awaitStatus(w.create(object{"agent": "stubborn", "prompt": counting, "artifactName": "out"}).ID, stint.Completed)
	w.equal("output", "1 1\n2 2\n3 3\n", w.output(r.ID))
	w.equal("attempt", 3, r.Attempt)
	w.equal("attempts", 3, len(r.Attempts))
	var total int64
	for i, a := range r.Attempts {
		w.equal("number", i+1, a.Number)
		w.equal("isolation", installation.Value(r.Isolation), installation.Value(a.Isolation))
		if a.WorkerID == "" || a.EndedAt == nil {
			w.Fatalf("attempt %d: %+v", i+1, a)
		}
		total += a.EndedAt.Sub(a.StartedAt.Time).Milliseconds()
		if i > 0 {
			if pause, least := a.StartedAt.Sub(r.Attempts[i-1].EndedAt.Time), time.Duration(i)*300*time.Millisecond; pause < least {
				w.Errorf("pause %d took %s, want %s or more", i, pause, least)
			}
			continue
		}
		w.equal("reason", stint.ReasonExitCode, installation.Value(a.StatusReason))
	}
	w.equal("reason of the last attempt", (*stint.Reason)(nil), r.Attempts[2].StatusReason)
	w.equal("startedAt", r.Attempts[0].StartedAt, *r.StartedAt)
	w.equal("executionTimeMs", total, *r.ExecutionTimeMs)
	w.equal("exitCode", 0, installation.Value(r.ExitCode))
	_, versions := w.artifact("out")
	w.equal("versions", 1, len(versions))
	var statuses []string
	for _, e := range w.journal(r.ID) {
		if e.Type == stint.EventStatus {
			var d stint.StatusData
			decode(w, e.Data, &d)
			statuses = append(statuses, string(d.Status))
			if (d.Status == stint.Pending && e.Seq > 1) != (d.Note != "" && d.Attempt > 0) {
				w.Errorf("event %d: %s", e.Seq, e.Data)
			}
		}
	}
	w.equal("statuses", "pending running pending running pending running completed", strings.Join(statuses, " "))
}

func startsAgainFromStart(w *tenant) {
	w.agent("forgetful", object{"retries": object{"max": 1, "on": []string{"exit_code"}, "from": "start", "backoff": object{"initial": "100ms"}}})
	r := w.awaitStatus(w.create(object{"agent": "forgetful", "prompt": counting}).ID, stint.Failed)
	w.equal("output", "1 1\n1 1\n", w.output(r.ID))
}

func lastAttempt(w *tenant) {
	w.agent("unlucky", object{"retries": object{"max": 1, "on": []string{"exit_code"}, "backoff": object{"initial": "100ms"}}})
	r := w.awaitStatus(w.create(object{"agent": "unlucky", "prompt": "echo no >&2; exit 7"}).ID, stint.Failed)
	w.equal("attempts", 2, len(r.Attempts))
	w.equal("exitCode", 7, installation.Value(r.ExitCode))
	w.equal("reason of the last attempt", stint.ReasonExitCode, installation.Value(r.Attempts[1].StatusReason))
	w.equal("error", installation.Value(r.StatusMessage)+"\nno", installation.Value(r.Error))
	errorEvents := 0
	for _, e := range w.journal(r.ID) {
		if e.Type == stint.EventError {
			errorEvents++
		}
	}
	w.equal("error events", 1, errorEvents)
	if r.CheckpointID == nil {
		w.Error("the run has no checkpoint")
	}
}

func startsAgainAfterTimeLimit(w *tenant) {
	w.agent("slow", object{"timeout": "10s", "retries": object{"max": 1, "on": []string{"time_limit"}, "backoff": object{"initial": "100ms"}}})
	r := w.awaitStatus(w.create(object{"agent": "slow", "prompt": "[ -e tried ] && exit 0; touch tried; exec sleep 600"}).ID, stint.Completed)
	w.equal("attempts", 2, len(r.Attempts))
	w.equal("reason of the first attempt", stint.ReasonTimeLimit, installation.Value(r.Attempts[0].StatusReason))
}

// awaitPause waits until an attempt of the run has ended, and the run is pending again.
func (w *tenant) awaitPause(id string) (r stint.Run) {
	w.Helper()
	w.waitUntil("a pause of "+id, func() bool {
		r = w.read(id)
		return r.Status == stint.Pending && r.Attempt > 0
	})
	return r
}

func (w *tenant) pausingAgent() {
	w.agent("patient", object{"retries": object{"max": 1, "on": []string{"exit_code"}, "backoff": object{"initial": "1h", "max": "1h"}}})
}

func cancelBetweenAttempts(w *tenant) {
	w.pausingAgent()
	id := w.create(object{"agent": "patient", "prompt": "echo work > file; exit 1", "artifactName": "out"}).ID
	r := w.awaitPause(id)
	w.equal("fields that are set at the end", []any{true, true, true, true, true},
		[]any{r.CompletedAt == nil, r.ExecutionTimeMs == nil, r.StatusReason == nil, r.StatusMessage == nil, r.Error == nil})
	w.equal("attempts", 1, len(r.Attempts))
	r = w.cancel(id)
	w.equal("status", stint.Cancelled, r.Status)
	if r.CheckpointID == nil || r.ArtifactVersion == nil {
		w.Fatalf("the files of the attempt are lost: checkpoint %v, version %v", r.CheckpointID, r.ArtifactVersion)
	}
	out, _ := w.runOutput(object{"checkpointId": *r.CheckpointID, "prompt": "cat file"})
	w.equal("file of the failed attempt", "work\n", out)
}

func pausedRunBlocks(w *tenant) {
	w.pausingAgent()
	first := w.awaitPause(w.create(object{"agent": "patient", "prompt": "exit 1"}).ID)
	next := w.create(object{"sessionId": first.SessionID, "prompt": "true"})
	time.Sleep(300 * time.Millisecond)
	w.equal("status of the next run", stint.Pending, w.read(next.ID).Status)
	w.cancel(first.ID)
	w.awaitStatus(next.ID, stint.Completed)
}

func messages(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 600"})
	w.cancel(r.ID)
	r = w.read(r.ID)
	w.equal("message of a cancelled run", "The run was cancelled by a user.", installation.Value(r.StatusMessage))
	w.equal("error of a cancelled run", (*string)(nil), r.Error)
	last := w.journal(r.ID)
	var done stint.CompleteData
	decode(w, last[len(last)-1].Data, &done)
	w.equal("message in the last event", installation.Value(r.StatusMessage), installation.Value(done.StatusMessage))
	r = w.awaitStatus(w.create(object{"prompt": "exec sleep 600", "limits": object{"idleTimeout": "1s"}}).ID, stint.TimedOut)
	w.equal("reason", stint.ReasonIdleLimit, installation.Value(r.StatusReason))
	w.equal("error of a run that was inactive", (*string)(nil), r.Error)
	if !strings.Contains(installation.Value(r.StatusMessage), "limits.idleTimeout") {
		w.Errorf("the message is %q", installation.Value(r.StatusMessage))
	}
}

func mismatch(w *tenant) {
	w.agent("typed", object{"output": object{"schema": json.RawMessage(`{"type":"object","required":["n"]}`)}})
	r := w.awaitStatus(w.create(object{"agent": "typed", "prompt": "echo '{}'"}).ID, stint.Failed)
	w.equal("reason", stint.ReasonMismatch, installation.Value(r.StatusReason))
	w.equal("exitCode", 0, installation.Value(r.ExitCode))
}

func invalidRetries(w *tenant) {
	for param, retries := range map[string]object{
		"retries.max":             {"max": 11},
		"retries.on[0]":           {"max": 1, "on": []string{"bananas"}},
		"retries.from":            {"max": 1, "from": "middle"},
		"retries.backoff.initial": {"max": 1, "backoff": object{"initial": "soon"}},
		"retries.backoff.factor":  {"max": 1, "backoff": object{"factor": 0.1}},
	} {
		w.wantError(request{method: "POST", path: "/v1/agents", body: object{"name": "odd", "framework": "shell", "retries": retries}}, 400, invalid, param)
	}
}
