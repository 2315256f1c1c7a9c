package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// equal configures cmp to compare JSON by value and to treat a nil slice or map as
// equal to an empty one.
var equal = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 }, cmp.Transformer("json", func(raw json.RawMessage) any {
		var v any
		if len(raw) > 0 && json.Unmarshal(raw, &v) != nil {
			return "invalid JSON: " + string(raw)
		}
		return v
	})),
}

func (w *world) diff(what string, want, got any, opts ...cmp.Option) {
	w.Helper()
	if d := cmp.Diff(want, got, append(cmp.Options{equal}, opts...)); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (w *world) wantErr(err, want error, doing string) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("%s returned %v, want %v", doing, err, want)
	}
}

// wantFenced checks that err is a *FencedError with the run's current head, status, and
// epoch. doing describes the call that returned err.
func (w *world) wantFenced(err error, run, doing string) {
	w.Helper()
	fence, ok := errors.AsType[*store.FencedError](err)
	if !ok {
		w.Fatalf("%s returned %v, want a *FencedError", doing, err)
	}
	head, _, err := w.s.Head(w.ctx, run)
	w.must(err, "Head")
	status, epoch, err := w.s.RunState(w.ctx, run)
	w.must(err, "RunState")
	w.diff(doing+": FencedError", store.FencedError{Head: head, Status: status, Epoch: epoch}, *fence)
}

func (w *world) wantState(err error, want stint.Status, doing string) {
	w.Helper()
	state, ok := errors.AsType[*store.StateError](err)
	if !ok {
		w.Fatalf("%s returned %v, want a *StateError", doing, err)
	}
	w.diff(doing+": status", want, state.Status)
}

// concurrently calls f(0) … f(n-1) concurrently and waits for all calls. It fails the test if
// a call returns an error.
func (w *world) concurrently(n int, f func(i int) error) {
	w.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			w.Fatalf("caller %d: %v", i, err)
		}
	}
}

// eventually calls ask repeatedly until ask returns true. It fails the test after one
// minute.
func (w *world) eventually(what string, ask func() bool) {
	w.Helper()
	limit := time.After(time.Minute)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !ask() {
		select {
		case <-limit:
			w.Fatalf("timeout waiting for: %s", what)
		case <-again.C:
		}
	}
}

func data[T any](w *world, e stint.Event) T {
	w.Helper()
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		w.Fatalf("event %d (%s) has data %s: %v", e.Seq, e.Type, e.Data, err)
	}
	return v
}

// kinds returns the type of each event with a position of at least from. For a status event,
// it returns the status instead of the type.
func (w *world) kinds(events []stint.Event, from int64) []string {
	w.Helper()
	var out []string
	for _, e := range events {
		switch {
		case e.Seq < from:
		case e.Type == stint.EventStatus:
			out = append(out, string(data[stint.StatusData](w, e).Status))
		default:
			out = append(out, string(e.Type))
		}
	}
	return out
}

// checkRun checks the invariants of a run and returns the run. The invariants are: the
// journal has no gap, its times do not decrease, no event follows the terminal event, and
// the results of Run, RunSummaries, Head, RunState, and Events agree.
func (o *tenant) checkRun(id string) store.Run {
	w := o.w
	w.Helper()
	events, run := w.events(id), o.run(id)
	status := w.checkJournal(id, events)
	w.diff("status of the journal and of the row", status, run.Status)
	if run.Status.Final() {
		w.checkEnd(events[len(events)-1], run)
	}
	head, headStatus, err := w.s.Head(w.ctx, id)
	w.must(err, "Head")
	w.diff("Head", int64(len(events)), head)
	w.diff("status by Head", run.Status, headStatus)
	state, epoch, err := w.s.RunState(w.ctx, id)
	w.must(err, "RunState")
	w.diff("status by RunState", run.Status, state)
	w.diff("epoch by RunState", run.Epoch, epoch)
	list, err := w.s.RunSummaries(w.ctx, o.org, store.RunFilter{SessionID: run.SessionID}, store.Range{Limit: 1000})
	w.must(err, "RunSummaries")
	i := slices.IndexFunc(list, func(s stint.RunSummary) bool { return s.ID == id })
	if i < 0 {
		w.Fatalf("run %s is missing in the list of its session", id)
	}
	w.diff("row and list", run.RunSummary, list[i])
	w.checkAttempts(run)
	return run
}

// checkAttempts checks that the attempts of a run are numbered 1, 2, 3 …, and that only
// the last one may not have ended.
func (w *world) checkAttempts(run store.Run) {
	w.Helper()
	w.diff("attempt and epoch", run.Epoch, int64(run.Attempt))
	w.diff("attempts", run.Attempt, len(run.Attempts))
	for i, a := range run.Attempts {
		w.diff("number of an attempt", i+1, a.Number)
		w.diff("attempt has ended", run.Status != stint.Running || i < len(run.Attempts)-1, a.EndedAt != nil)
	}
	if len(run.Attempts) > 0 {
		w.diff("start of the first attempt", &run.Attempts[0].StartedAt, run.StartedAt)
	}
}

// checkJournal checks the positions, times, first event, and terminal event of a run's
// journal. It returns the status of the last status event.
func (w *world) checkJournal(id string, events []stint.Event) stint.Status {
	w.Helper()
	if len(events) == 0 {
		w.Fatalf("run %s has no events", id)
	}
	var status stint.Status
	for i, e := range events {
		if e.Seq != int64(i+1) {
			w.Fatalf("run %s has event %d at position %d", id, e.Seq, i+1)
		}
		if i > 0 && e.At.Before(events[i-1].At.Time) {
			w.Errorf("run %s: time of event %d decreases: %s after %s", id, e.Seq, e.At, events[i-1].At)
		}
		switch e.Type {
		case stint.EventStatus:
			status = data[stint.StatusData](w, e).Status
		case stint.EventComplete:
			if i != len(events)-1 {
				w.Errorf("run %s: %d events follow the terminal event", id, len(events)-1-i)
			}
		}
	}
	if events[0].Type != stint.EventStatus || data[stint.StatusData](w, events[0]).Status != stint.Pending {
		w.Errorf("run %s begins with %s %s, want status pending", id, events[0].Type, events[0].Data)
	}
	if last := events[len(events)-1]; status.Final() != (last.Type == stint.EventComplete) {
		w.Errorf("run %s: status %s, but the last event is %s", id, status, last.Type)
	}
	return status
}

// checkEnd compares the terminal event e with the row of an ended run.
func (w *world) checkEnd(e stint.Event, run store.Run) {
	w.Helper()
	if run.CompletedAt == nil || run.ExecutionTimeMs == nil {
		w.Fatalf("run %s is %s with incomplete fields: completedAt %v, executionTimeMs %v", run.ID, run.Status, run.CompletedAt, run.ExecutionTimeMs)
	}
	want := stint.CompleteData{
		Status: run.Status, ExecutionTimeMs: *run.ExecutionTimeMs, StatusReason: run.StatusReason, StatusMessage: run.StatusMessage, ExitCode: run.ExitCode,
		CheckpointID: run.CheckpointID, ArtifactName: run.ArtifactName, ArtifactVersion: run.ArtifactVersion, HeadMovedFrom: run.HeadMovedFrom,
		Usage: run.Usage, Result: run.Result,
	}
	w.diff("row and terminal event", want, data[stint.CompleteData](w, e))
	w.diff("has a message", run.Status != stint.Completed, run.StatusMessage != nil)
	w.diff("has an error", run.Status == stint.Failed, run.Error != nil)
	if run.Sealed != nil {
		w.Errorf("run %s has ended but still has sealed secrets", run.ID)
	}
}
