package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker/run"
)

// work registers the worker and executes runs until ctx ends or the lease is
// lost. It returns after all runs have ended.
func (w *Worker) work(ctx context.Context) error {
	id := w.c.IDs.New(stint.PrefixWorker)
	lease, err := w.c.Dispatcher.Register(ctx, store.Worker{ID: id, Host: w.c.Host, Capacity: w.c.Capacity, CreatedAt: stint.TimeOf(w.c.Now())})
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	lost := make(chan error, 1)
	go func() { lost <- w.renew(renewing, id, lease) }()

	takeEnded := make(chan struct{})
	go func() { defer close(takeEnded); w.take(taking, id) }()

	var leaseErr error
	select {
	case <-ctx.Done():
		stopTaking()
		<-takeEnded
		leaseErr = w.drain(lost)
	case leaseErr = <-lost:
		w.stopAll(run.ErrLeaseLost)
		stopTaking()
		<-takeEnded
		w.stopAll(run.ErrLeaseLost) // runs that were taken in the meantime
		w.awaitStopped(w.allEnded())
	}
	if leaseErr != nil {
		return leaseErr
	}
	stopRenewing()
	if err := <-lost; err != nil {
		return err
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return w.c.Dispatcher.Drain(leave, id)
}

// drain waits for the runs, at most for the drain time, and then ends the remaining
// runs. If the lease is lost meanwhile, it ends the runs at once and returns the
// reason. It does not wait longer than StopLimit for runs that were ended.
func (w *Worker) drain(lost <-chan error) (err error) {
	done := w.allEnded()
	cause := run.ErrDrained
	select {
	case <-done:
	case <-time.After(w.c.Drain):
	case err = <-lost:
		cause = run.ErrLeaseLost
	}
	w.stopAll(cause)
	w.awaitStopped(done)
	return err
}

// allEnded returns a channel that is closed when all runs have ended.
func (w *Worker) allEnded() <-chan struct{} {
	done := make(chan struct{})
	go func() { w.wg.Wait(); close(done) }()
	return done
}

// awaitStopped waits for runs that were stopped, at most for StopLimit. Runs whose
// sandboxes do not end are left to the next start of the worker.
func (w *Worker) awaitStopped(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(w.c.StopLimit):
		w.c.Logger.Error("runs do not end; the next start removes what they left", "runs", w.held())
	}
}

// renew renews the lease every third of its duration until ctx ends. It returns an
// error if the lease is lost, or if renewing has failed for two thirds of its
// duration, because other workers may soon get the runs.
func (w *Worker) renew(ctx context.Context, workerID string, lease time.Duration) error {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, lease/3)
		stop, err := w.c.Dispatcher.Renew(attempt, workerID, w.held())
		cancel()
		switch {
		case err == nil:
			renewed = time.Now()
			w.stop(run.ErrStopped, stop...)
		case errors.Is(err, store.ErrLeaseLost):
			return err
		case ctx.Err() == nil && time.Since(renewed) >= lease*2/3:
			return fmt.Errorf("no answer for two thirds of the lease: %w", err)
		}
	}
}

// held returns the IDs of the runs that are being executed.
func (w *Worker) held() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.runs))
}

// stop ends runs without a result. It ignores runs that are not being executed.
func (w *Worker) stop(cause error, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if r := w.runs[id]; r != nil {
			r.LoseOwnership(cause)
		}
	}
}

func (w *Worker) stopAll(cause error) { w.stop(cause, w.held()...) }
