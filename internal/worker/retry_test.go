package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
)

// retrying starts the loop that ends pauses. It ends with the test.
func (w *world) retrying() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.local.RunRetries(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// statuses returns the statuses in the journal of a run, with their notes.
func (w *world) statuses(id string) (all []string) {
	w.t.Helper()
	for i, e := range w.events(id) {
		if e.Seq != int64(i+1) {
			w.t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		if e.Type != stint.EventStatus {
			continue
		}
		var d stint.StatusData
		check(w.t, json.Unmarshal(e.Data, &d))
		all = append(all, strings.TrimSpace(string(d.Status)+" "+d.Note))
	}
	return all
}

// TestRetry checks that a failed run starts again after its pauses, and that the run has
// the results of the last attempt, the first start, and the sum of the times.
func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		w := newWorld(t, func(ctx context.Context, p *fake.Proc) sandbox.Exit {
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
			if attempts.Add(1) < 3 {
				write(p.Stderr, "the model is overloaded\n")
				return sandbox.Exit{Code: 5}
			}
			return sandbox.Exit{}
		})
		w.retrying()
		w.agent(`{"framework":"shell","retries":{"max":5,"on":["exit_code"],"backoff":{"initial":"10s","factor":3}}}`)
		id := w.create(stint.NewRun{Agent: "agent"}).ID
		r := w.ended(id)
		if r.Status != stint.Completed || *r.ExitCode != 0 || r.StatusReason != nil || r.Error != nil || r.StatusMessage != nil {
			t.Fatalf("the run is %s: %v", r.Status, r.StatusMessage)
		}
		const ended = "ended (exit_code). The agent's command ended with exit code 5. The next attempt starts in "
		want := []string{"pending", "running", "pending Attempt 1 of 6 " + ended + "10s.", "running", "pending Attempt 2 of 6 " + ended + "30s.", "running", "completed"}
		if diff := cmp.Diff(want, w.statuses(id)); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		if r.Attempt != 3 || len(r.Attempts) != 3 || r.Attempts[2].StatusReason != nil || *r.Attempts[0].StatusReason != stint.ReasonExitCode || *r.Attempts[0].Isolation != "fake" {
			t.Errorf("attempts: %+v", r.Attempts)
		}
		if ms := *r.ExecutionTimeMs; ms < 9000 || ms > 9500 {
			t.Errorf("executionTimeMs is %d, want 9000", ms)
		}
		if r.StartedAt.Compare(r.Attempts[0].StartedAt.Time) != 0 {
			t.Errorf("startedAt is %s, the first attempt started at %s", r.StartedAt, r.Attempts[0].StartedAt)
		}
		for i, pause := range []time.Duration{10 * time.Second, 30 * time.Second} {
			if waited := r.Attempts[i+1].StartedAt.Sub(r.Attempts[i].EndedAt.Time); waited < pause || waited > pause+100*time.Millisecond {
				t.Errorf("pause %d took %s, want %s", i+1, waited, pause)
			}
		}
	})
}

// TestRetryContinues checks that a retry starts with the files that the failed attempt left,
// or with retries.from start with those of the run's start.
func TestRetryContinues(t *testing.T) {
	t.Parallel()
	for from, want := range map[string][]string{"checkpoint": {"", "1", "12"}, "start": {"", "", ""}} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			var found []string
			w := newWorld(t, func(_ context.Context, p *fake.Proc) sandbox.Exit {
				file := filepath.Join(p.Spec.Workspace, "notes")
				before, err := os.ReadFile(file)
				if err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
				found = append(found, string(before))
				check(t, os.WriteFile(file, append(before, byte('0'+len(found))), 0o600))
				if len(found) < 3 {
					return sandbox.Exit{Code: 1}
				}
				return sandbox.Exit{}
			})
			w.retrying()
			w.agent(`{"framework":"shell","retries":{"max":2,"on":["exit_code"],"from":"` + from + `","backoff":{"initial":"10ms"}}}`)
			r := w.ended(w.create(stint.NewRun{Agent: "agent", ArtifactName: "work"}).ID)
			if r.Status != stint.Completed || !slices.Equal(found, want) {
				t.Errorf("the run is %s and its attempts found %q, want %q", r.Status, found, want)
			}
			if r.ArtifactVersion == nil || !strings.HasPrefix(*r.ArtifactVersion, "v1_") {
				t.Errorf("the artifact's version is %v, want the first one", r.ArtifactVersion)
			}
		})
	}
}

// TestRetryBudget checks that usage adds up over attempts, and that limits hold for the
// whole run.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	usage := func(n int64) *stint.Usage {
		cost := float64(n) / 100
		u := &stint.Usage{CostUSD: &cost, CostSource: stint.CostByAgent}
		u.Count("m", stint.Tokens{InputTokens: n, ModelCalls: 1})
		return u
	}
	var attempts atomic.Int64
	w := newScriptedWorld(t, &scriptedFramework{}, func(ctx context.Context, b *fake.Proc) sandbox.Exit {
		emit(b.Stdout, framework.Step{Usage: usage(40)})
		if attempts.Add(1) < 3 {
			return sandbox.Exit{Code: 1}
		}
		hang(ctx)
		return sandbox.Exit{Signal: 9, Cause: sandbox.Killed}
	})
	w.retrying()
	run := w.run(`{"framework":"acp","command":["x"],"limits":{"maxTokens":100},"retries":{"max":9,"on":["exit_code"],"backoff":{"initial":"10ms","factor":1}}}`, stint.NewRun{})
	if run.Status != stint.Failed || *run.StatusReason != stint.ReasonBudget || attempts.Load() != 3 || !strings.Contains(*run.StatusMessage, "120 of 100 tokens") {
		t.Errorf("the run ended %s (%s) after %d attempts: %s", run.Status, *run.StatusReason, attempts.Load(), *run.StatusMessage)
	}
	var total stint.Usage
	check(t, json.Unmarshal(run.Usage, &total))
	if total.InputTokens != 120 || total.ModelCalls != 3 || total.CostUSD == nil || *total.CostUSD < 1.19 || *total.CostUSD > 1.21 || total.Models["m"].InputTokens != 120 {
		t.Errorf("the usage is %s", run.Usage)
	}
}

// TestCancelDuringPause checks that a run can be cancelled before its retry, and that it
// then has the checkpoint of the failed attempt.
func TestCancelDuringPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{Code: 1} })
	w.retrying()
	w.agent(`{"framework":"shell","retries":{"max":1,"on":["exit_code"],"backoff":{"initial":"1h","max":"1h"}}}`)
	id := w.create(stint.NewRun{Agent: "agent"}).ID
	w.until("the first attempt has failed", func() bool {
		r, err := w.runs.Get(t.Context(), w.caller, id)
		check(t, err)
		return r.Status == stint.Pending && r.Attempt == 1
	})
	_, err := w.runs.Cancel(t.Context(), w.caller, id)
	check(t, err)
	r := w.ended(id)
	if r.Status != stint.Cancelled || r.CheckpointID == nil || len(r.Attempts) != 1 || r.StatusMessage == nil {
		t.Errorf("the run is %s with checkpoint %v and %d attempts", r.Status, r.CheckpointID, len(r.Attempts))
	}
}
