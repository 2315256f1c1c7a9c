package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/worker"
)

// illHost is a host on which the set-up of sandboxes blocks or fails.
type illHost struct {
	driver *fake.Driver
	ill    atomic.Bool
	heal   chan struct{} // closed to end blocked calls
	trials atomic.Int64  // sandboxes that the worker prepared as a trial
}

// newIllHost returns a host that is ill, and whose calls block as hang does. step is
// "prepare" or "start".
func newIllHost(step string, hang func(ctx context.Context, heal <-chan struct{}) error) *illHost {
	h := &illHost{heal: make(chan struct{}), driver: fake.New(func(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{} })}
	h.ill.Store(true)
	call := func(ctx context.Context) error {
		if !h.ill.Load() {
			return nil
		}
		return hang(ctx, h.heal)
	}
	h.driver.OnPrepare = func(ctx context.Context, s sandbox.Spec) error {
		if strings.HasPrefix(s.ID, "trial-") {
			h.trials.Add(1)
		}
		if step != "prepare" {
			return nil
		}
		return call(ctx)
	}
	if step == "start" {
		h.driver.OnStart = func(ctx context.Context, _ sandbox.Spec, _ sandbox.Command) error { return call(ctx) }
	}
	return h
}

func (h *illHost) use(c *worker.Config) {
	c.Driver, c.SetupLimit, c.FirstTrial, c.Capacity = h.driver, 20*time.Millisecond, 5*time.Millisecond, 1
}

// ways are the ways in which the set-up of a sandbox does not succeed.
var ways = map[string]func(ctx context.Context, heal <-chan struct{}) error{
	"blocks":                 func(_ context.Context, heal <-chan struct{}) error { <-heal; return nil },
	"blocks until its limit": func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return ctx.Err() },
	"fails":                  func(context.Context, <-chan struct{}) error { return errors.New("the kernel refuses") },
}

// TestUnhealthyHost checks that runs fail with sandbox_error if sandboxes do not start,
// that after three of them the worker takes no more runs and says why, and that it
// takes them again when a trial has succeeded.
func TestUnhealthyHost(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"prepare", "start"} {
		for way, hang := range ways {
			t.Run(step+" "+way, func(t *testing.T) {
				t.Parallel()
				h := newIllHost(step, hang)
				w := newWorld(t, nil, h.use)
				t.Cleanup(func() { h.ill.Store(false); w.stop() })
				w.agent(shell)
				for i := range 3 {
					if err := w.worker.Healthy(); err != nil {
						t.Errorf("unhealthy after %d failures: %v", i, err)
					}
					r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
					if r.Status != stint.Failed || *r.StatusReason != stint.ReasonSandboxError || r.Error == nil {
						t.Fatalf("the run is %s, %v", r.Status, r.StatusReason)
					}
					if !strings.Contains(*r.Error, "sandbox did not start") && way != "fails" {
						t.Errorf("the error is %q", *r.Error)
					}
					if log := w.systemLog(r.ID); !strings.Contains(log, "error "+*r.Error) {
						t.Errorf("the system log is %q", log)
					}
				}
				reason, ok := errors.AsType[*stint.Error](w.worker.Healthy())
				if !ok || reason.Kind != stint.KindUnavailable || !strings.Contains(reason.Message, "Sandboxes do not start") {
					t.Errorf("health after three failures: %v", w.worker.Healthy())
				}
				waiting := w.create(stint.NewRun{Agent: "agent"})
				w.until("two trials fail", func() bool { return h.trials.Load() >= 2 })
				if status, _, err := w.store.RunState(t.Context(), waiting.ID); status != stint.Pending || err != nil {
					t.Errorf("the run on an unhealthy host is %s, %v", status, err)
				}
				h.ill.Store(false)
				close(h.heal)
				if r := w.ended(waiting.ID); r.Status != stint.Completed {
					t.Errorf("the run is %s after a trial succeeded", r.Status)
				}
				if err := w.worker.Healthy(); err != nil {
					t.Error(err)
				}
				w.until("no sandbox is left", func() bool { return len(h.driver.Live()) == 0 })
			})
		}
	}
}

// TestFailuresInARow checks that a successful start between failed ones, and errors of
// definitions, leave the host healthy.
func TestFailuresInARow(t *testing.T) {
	t.Parallel()
	h := newIllHost("start", ways["fails"])
	w := newWorld(t, nil, h.use)
	w.agent(shell)
	for _, ill := range []bool{true, true, false, true, true} {
		h.ill.Store(ill)
		w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
	}
	if err := w.worker.Healthy(); err != nil {
		t.Error(err)
	}
	h.ill.Store(false)
	w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
	user := newIllHost("start", func(context.Context, <-chan struct{}) error {
		return &sandbox.Error{Message: "There is no such program."}
	})
	w2 := newWorld(t, nil, user.use)
	w2.agent(shell)
	for range 4 {
		if r := w2.ended(w2.create(stint.NewRun{Agent: "agent"}).ID); *r.StatusReason != stint.ReasonSetupFailed {
			t.Errorf("reason %s", *r.StatusReason)
		}
	}
	if err := w2.worker.Healthy(); err != nil {
		t.Error(err)
	}
}

// TestTimeLimitDuringSetup checks that a run whose time limit passes while its sandbox is
// set up is failed, not timed out.
func TestTimeLimitDuringSetup(t *testing.T) {
	t.Parallel()
	h := newIllHost("prepare", ways["blocks"])
	w := newWorld(t, nil, h.use, func(c *worker.Config) { c.SetupLimit = time.Hour })
	w.agent(`{"framework":"shell","timeout":"1s"}`)
	r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID)
	if r.Status != stint.Failed || *r.StatusReason != stint.ReasonSandboxError || !strings.Contains(*r.Error, "time limit of 1s") {
		t.Errorf("the run is %s, %v, %q", r.Status, *r.StatusReason, *r.Error)
	}
	h.ill.Store(false)
	close(h.heal)
}

// TestStopOnIllHost checks that a worker stops although a sandbox neither starts nor ends.
func TestStopOnIllHost(t *testing.T) {
	t.Parallel()
	h := newIllHost("prepare", ways["blocks"])
	w := newWorld(t, nil, h.use, func(c *worker.Config) {
		c.SetupLimit, c.Drain, c.StopLimit = time.Hour, time.Millisecond, time.Millisecond
	})
	w.agent(shell)
	r := w.create(stint.NewRun{Agent: "agent"})
	w.until("the run starts", func() bool {
		status, _, err := w.store.RunState(t.Context(), r.ID)
		check(t, err)
		return status == stint.Running
	})
	w.stop()
	if got := w.ended(r.ID); got.Status != stint.Failed || *got.StatusReason != stint.ReasonWorkerLost {
		t.Errorf("the run is %s", got.Status)
	}
	close(h.heal)
	w.until("no sandbox is left", func() bool { return len(h.driver.Live()) == 0 })
}
