package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/output"
	"github.com/stint-dev/stint/internal/worker/usage"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["n"]}`
	exited := func(code int) sandbox.Exit { return sandbox.Exit{Code: code, Cause: sandbox.Exited} }
	killed := sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}
	completed := framework.Verdict{Completed: true, Final: "four"}
	for name, tt := range map[string]struct {
		facts
		status  stint.Status
		reason  stint.Reason
		message string // part of the message; empty if the outcome has no message
		code    int    // exit code; -1 if the outcome has no exit code
		result  string
	}{
		"completed":                        {facts{exit: exited(0), verdict: completed}, stint.Completed, "", "", 0, `"four"`},
		"without a final message":          {facts{exit: exited(0), verdict: framework.Verdict{Completed: true}}, stint.Completed, "", "", 0, ""},
		"failed":                           {facts{exit: exited(3), verdict: framework.Verdict{Message: "no", Final: "sorry"}}, stint.Failed, stint.ReasonExitCode, "no", 3, `"sorry"`},
		"failed for a reason":              {facts{exit: exited(0), verdict: framework.Verdict{Reason: stint.ReasonBudget, Message: "no"}}, stint.Failed, stint.ReasonBudget, "no", 0, ""},
		"matches its schema":               {facts{exit: exited(0), verdict: framework.Verdict{Completed: true, Final: `{"n":4}`}, schema: []byte(schema)}, stint.Completed, "", "", 0, `{"n":4}`},
		"does not match its schema":        {facts{exit: exited(0), verdict: completed, schema: []byte(schema)}, stint.Failed, stint.ReasonMismatch, "output.schema", 0, ""},
		"failed with a schema":             {facts{exit: exited(1), verdict: framework.Verdict{Message: "no", Final: `{"n":4}`}, schema: []byte(schema)}, stint.Failed, stint.ReasonExitCode, "no", 1, ""},
		"killed after the terminal event":  {facts{exit: killed, verdict: completed, ended: true}, stint.Completed, "", "", -1, `"four"`},
		"killed before the terminal event": {facts{exit: killed, verdict: completed}, stint.Failed, stint.ReasonSandboxError, "The sandbox ended", -1, ""},
		"sandbox lost":                     {facts{exit: sandbox.Exit{Code: -1, Cause: sandbox.Lost}}, stint.Failed, stint.ReasonSandboxError, "The sandbox ended", -1, ""},
		"signalled":                        {facts{exit: sandbox.Exit{Code: 139, Signal: 11, Cause: sandbox.Signalled}}, stint.Failed, stint.ReasonExitCode, "signal 11", 139, ""},
		"out of memory":                    {facts{exit: sandbox.Exit{Code: 137, Cause: sandbox.OOMKilled}, verdict: completed, ended: true}, stint.Failed, stint.ReasonOutOfMemory, "resources.memory", 137, ""},
		"disk full":                        {facts{exit: sandbox.Exit{Code: 137, Cause: sandbox.DiskFull}, verdict: completed, ended: true}, stint.Failed, stint.ReasonDiskFull, "resources.disk", -1, ""},
		"time limit":                       {facts{cause: errTimeLimit, exit: killed, limits: limits{time: time.Minute}}, stint.TimedOut, stint.ReasonTimeLimit, "time limit of 1m0s", -1, ""},
		"time limit beats completed":       {facts{cause: errTimeLimit, exit: exited(0), verdict: completed, ended: true}, stint.TimedOut, stint.ReasonTimeLimit, "time limit", 0, ""},
		"idle limit":                       {facts{cause: errIdle, exit: killed, limits: limits{idle: time.Second}}, stint.TimedOut, stint.ReasonIdleLimit, "for 1s, its idle limit", -1, ""},
		"output limit":                     {facts{cause: output.ErrLimit, exit: killed, limits: limits{output: 1 << 20}}, stint.Failed, stint.ReasonOutputLimit, "more output than its limit (limits.outputBytes: 1MiB)", -1, ""},
		"does not read":                    {facts{cause: output.ErrNotReading, exit: killed}, stint.Failed, stint.ReasonExitCode, "does not read", -1, ""},
		"budget":                           {facts{cause: overBudget(t), exit: killed}, stint.Failed, stint.ReasonBudget, "2 of 1 turns", -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(tt.facts)
			code := -1
			if got.exitCode != nil {
				code = *got.exitCode
			}
			if got.status != tt.status || got.reason != tt.reason || code != tt.code || got.discard {
				t.Errorf("got %s (%s) with exit code %d, discard %v", got.status, got.reason, code, got.discard)
			}
			if !strings.Contains(got.message, tt.message) || (got.message == "") != (tt.message == "") {
				t.Errorf("the message is %q", got.message)
			}
			if diff := cmp.Diff(tt.result, string(got.result)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecideDiscards checks that the outcome of a run is discarded if the worker may no
// longer finish the run, for example because another process has ended it.
func TestDecideDiscards(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{ErrStopped, ErrLeaseLost, ErrDrained, context.Canceled, errors.New("other")} {
		got := decide(facts{cause: cause, exit: sandbox.Exit{Cause: sandbox.Exited}, verdict: framework.Verdict{Completed: true}, ended: true})
		if !got.discard || got.status != "" {
			t.Errorf("%v: got %+v", cause, got)
		}
	}
}

func overBudget(t *testing.T) error {
	t.Helper()
	m := usage.NewMeter(stint.Limits{MaxTurns: 1}, nil, false)
	m.SetAgent(nil, 2)
	_, err := m.Check()
	if err == nil {
		t.Fatal("the budget is not exceeded")
	}
	return err
}

// TestUndoOrder checks that undoAll calls all undo functions in reverse order, even if a
// function fails and the context of the run has ended.
func TestUndoOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var order []string
	add := func(name string, err error) undo {
		return func(ctx context.Context) error {
			order = append(order, name)
			return errors.Join(err, ctx.Err())
		}
	}
	failure := errors.New("failure")
	err := undoAll(ctx, []undo{add("directories", nil), add("sandbox", failure), add("network", nil)})
	if diff := cmp.Diff([]string{"network", "sandbox", "directories"}, order); diff != "" {
		t.Error(diff)
	}
	if !errors.Is(err, failure) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
