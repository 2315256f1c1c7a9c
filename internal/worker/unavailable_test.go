package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

// checkStops checks that the worker stops within maxWait while calls of the store block.
func (w *world) checkStops(stuck *atomic.Bool) {
	w.t.Helper()
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.stop() }()
	select {
	case <-stopped:
	case <-time.After(maxWait):
		w.t.Error("the worker does not stop")
		stuck.Store(false)
		<-stopped
	}
}

// TestStopWhileStoreHangs checks that a worker stops in the middle and at the end of a run
// while calls of the store block.
func TestStopWhileStoreHangs(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"in the middle": false, "at the end": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stuck atomic.Bool
			said := make(chan struct{})
			w := newWorld(t, func(ctx context.Context, p *fake.Proc) sandbox.Exit {
				stuck.Store(true)
				write(p.Stdout, "hello\n")
				close(said)
				if !ends {
					<-ctx.Done()
				}
				return sandbox.Exit{Cause: sandbox.Exited}
			}, withDispatcher(&hookedDispatcher{stuck: stuck.Load}), func(c *worker.Config) { c.Drain = time.Millisecond })
			w.agent(shell)
			w.create(stint.NewRun{Agent: "agent"})
			<-said
			w.checkStops(&stuck)
		})
	}
}

// TestLeaseLostWhileStoreHangs checks a worker that loses its lease while calls of the
// store block. The journal of its run contains only the events appended before and the
// terminal events, and the worker executes the next run.
func TestLeaseLostWhileStoreHangs(t *testing.T) {
	t.Parallel()
	var stuck, losing atomic.Bool
	d := &hookedDispatcher{stuck: stuck.Load, lease: 30 * time.Millisecond, onRenew: func() error {
		if losing.CompareAndSwap(true, false) {
			return store.ErrLeaseLost
		}
		return nil
	}}
	heard, killed := make(chan struct{}), make(chan struct{})
	first := true
	w := newWorld(t, func(ctx context.Context, p *fake.Proc) sandbox.Exit {
		write(p.Stdout, "one\n")
		if first {
			first = false
			<-heard
			write(p.Stdout, "two\n")
			<-ctx.Done()
			close(killed)
			return sandbox.Exit{Code: 137, Signal: 9, Cause: sandbox.Killed}
		}
		return sandbox.Exit{Cause: sandbox.Exited}
	}, withDispatcher(d), func(c *worker.Config) { c.Capacity = 1 })
	t.Cleanup(func() { stuck.Store(false) })
	w.agent(shell)
	lost := w.create(stint.NewRun{Agent: "agent"})
	w.until("the first output is stored", func() bool { return w.transcript(lost.ID) == "one\n" })
	stuck.Store(true)
	close(heard)
	losing.Store(true)
	<-killed
	held, err := w.store.Run(t.Context(), w.caller.OrgID, lost.ID)
	check(t, err)
	check(t, w.store.EndWorker(t.Context(), held.WorkerID))
	if n, err := w.local.Reap(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d runs were lost, %v", n, err)
	}
	next := w.create(stint.NewRun{Agent: "agent"}) // starts when the lost run has released its slot
	w.until("the worker starts the next run", func() bool {
		status, _, err := w.store.RunState(t.Context(), next.ID)
		check(t, err)
		return status == stint.Running
	})
	stuck.Store(false)
	w.ended(next.ID)
	w.stop()
	if got := w.ended(lost.ID); got.Status != stint.Failed || got.StatusReason == nil || *got.StatusReason != stint.ReasonWorkerLost {
		t.Errorf("the run is %s, %v", got.Status, got.StatusReason)
	}
	if said := w.transcript(lost.ID); said != "one\n" {
		t.Errorf("the output is %q", said)
	}
	events := w.events(lost.ID)
	for i, e := range events {
		if (e.Type == stint.EventComplete) != (i == len(events)-1) {
			t.Errorf("event %d of %d is %s", i+1, len(events), e.Type)
		}
	}
}

// TestCancelDuringFailedFinish checks that a run that is cancelled while its Finish fails
// still gets a checkpoint.
func TestCancelDuringFailedFinish(t *testing.T) {
	t.Parallel()
	away := errors.New("the store is away")
	cancelled := make(chan struct{})
	cancelling := make(chan struct{}, 1)
	d := &hookedDispatcher{onFinish: func(store.Outcome) error {
		select {
		case cancelling <- struct{}{}:
		default:
		}
		<-cancelled
		return away
	}}
	w := newWorld(t, func(context.Context, *fake.Proc) sandbox.Exit {
		return sandbox.Exit{Cause: sandbox.Exited}
	}, withDispatcher(d))
	w.agent(shell)
	r := w.create(stint.NewRun{Agent: "agent"})
	<-cancelling
	_, err := w.runs.Cancel(t.Context(), w.caller, r.ID)
	check(t, err)
	close(cancelled)
	w.stop()
	if got := w.ended(r.ID); got.Status != stint.Cancelled || got.CheckpointID == nil {
		t.Errorf("the run is %s with checkpoint %v", got.Status, got.CheckpointID)
	}
}
