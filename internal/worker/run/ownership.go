package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Causes for LoseOwnership.
var (
	ErrStopped   = errors.New("the run was ended by another process")
	ErrLeaseLost = errors.New("the worker's lease was lost")
	ErrDrained   = errors.New("the worker stops")
)

// lifetime contains the contexts of a run. The end of ctx ends the agent's command; the
// run's state is still stored, and the run is finished. The end of owned means that this
// worker does not own the run any more; see stateLost.
type lifetime struct {
	ctx    context.Context // cancelled with a cause to end the command
	cancel context.CancelCauseFunc
	owned  context.Context // cancelled when this worker loses the run, even if ctx was cancelled before
	lose   context.CancelCauseFunc
}

func newLifetime(ctx context.Context) *lifetime {
	l := &lifetime{}
	l.owned, l.lose = context.WithCancelCause(ctx)
	l.ctx, l.cancel = context.WithCancelCause(l.owned)
	return l
}

// endedBy reports whether ctx ended for one of the causes.
func (l *lifetime) endedBy(causes ...error) bool {
	cause := context.Cause(l.ctx)
	return slices.ContainsFunc(causes, func(c error) bool { return errors.Is(cause, c) })
}

// isLost reports whether this worker does not own the run any more.
func (l *lifetime) isLost() bool { return l.owned.Err() != nil }

// stateLost reports whether the run's state must be dropped, because this worker has
// lost its lease or stops. The state of a run that was ended by another process is
// kept.
func (l *lifetime) stateLost() bool {
	cause := context.Cause(l.owned)
	return errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrDrained)
}

// untilStateLost returns a context that is cancelled when the state is lost. It is not
// cancelled when the run turns out to be ended, because an earlier attempt of this
// worker to finish the run may have ended it.
func (l *lifetime) untilStateLost() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.ctx))
	stop := context.AfterFunc(l.owned, func() {
		if l.stateLost() {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// checkInterval is the time between two checks of the ownership if no notification
// arrives.
const checkInterval = 5 * time.Second

// watchOwnership stops the execution of the run when another process has ended the run.
func (s *state) watchOwnership() (stop func()) {
	wake, cancel := s.Dispatcher.WatchStop(s.a.Run.ID)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		check := time.NewTicker(checkInterval)
		defer check.Stop()
		for {
			select {
			case <-done:
				return
			case <-wake:
			case <-check.C:
			}
			if !s.owns() {
				s.life.lose(ErrStopped)
				return
			}
		}
	})
	return func() { close(done); wg.Wait(); cancel() }
}

// owns reports whether this worker still owns the run. If the check fails, it returns
// true.
func (s *state) owns() bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life.ctx), checkInterval)
	defer cancel()
	owns, err := s.Dispatcher.Owns(ctx, s.a.Position)
	if err != nil {
		s.log.Warn("check the ownership of the run", "error", err)
		return true
	}
	return owns
}
