package worker

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/dispatch"
)

// The pauses between trials on an unhealthy host.
const (
	firstTrial = time.Second
	lastTrial  = 30 * time.Second
)

// Healthy returns nil, or the reason why the worker takes no runs: the last starts of
// sandboxes failed. The reason is a *stint.Error with a message for the operator.
func (w *Worker) Healthy() error { return w.shared.Health.Err() }

// next waits for runs. It returns early if the host becomes unhealthy.
func (w *Worker) next(ctx context.Context, workerID string, free int) ([]dispatch.Assignment, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ill := w.shared.Health.Unhealthy()
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ill:
			cancel()
		case <-stop:
		}
	}()
	defer func() { close(stop); <-watched }()
	return w.c.Dispatcher.Next(ctx, workerID, free)
}

// recover tries to start a sandbox until it succeeds or ctx ends. The pauses between
// trials grow.
func (w *Worker) recover(ctx context.Context) {
	for wait := w.c.FirstTrial; ; wait = min(2*wait, lastTrial) {
		pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		err := w.shared.Try(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			w.c.Logger.Warn("a trial of a sandbox failed; trying again", "error", err)
		}
	}
}
