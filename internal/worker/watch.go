package worker

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/definition"
)

// checkInterval is the net below a lost word of a cancel.
const checkInterval = 5 * time.Second

// watch ends the job's context when the run is ended by other hands or its
// time is up.
func (j *job) watch() (stop func()) {
	wake, cancel := j.e.c.Dispatcher.WatchStop(j.a.Run.ID)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		limit := time.NewTimer(j.timeLeft())
		defer limit.Stop()
		check := time.NewTicker(checkInterval)
		defer check.Stop()
		for {
			select {
			case <-quit:
				return
			case <-limit.C:
				j.cancel(errTimeLimit)
				continue
			case <-wake:
			case <-check.C:
			}
			if j.endedElsewhere() {
				j.disown(errStopped)
				return
			}
		}
	})
	return func() { close(quit); wg.Wait(); cancel() }
}

// timeLeft counts the run's time limit from its start.
func (j *job) timeLeft() time.Duration {
	if j.a.Plan == nil {
		return definition.DefaultTimeout
	}
	if j.a.Run.StartedAt == nil {
		return j.a.Plan.Timeout
	}
	return j.a.Plan.Timeout - j.e.c.Now().Sub(j.a.Run.StartedAt.Time)
}

func (j *job) endedElsewhere() bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), checkInterval)
	defer cancel()
	owns, err := j.e.c.Dispatcher.Owns(ctx, j.a.Position)
	if err != nil {
		j.log.Warn("check who owns the run", "error", err)
		return false
	}
	return !owns
}
