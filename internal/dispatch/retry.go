package dispatch

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
)

// RunRetries makes runs claimable when their pause before a retry ends, until ctx ends.
// Another server may have queued a run again, so it asks the store at the poll interval
// at least.
func (l *Local) RunRetries(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.paused:
		}
		wait, err := l.endPauses(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			l.c.Logger.Warn("cannot start runs again; trying again", "error", err)
		}
		failing = err != nil
		timer.Reset(wait)
	}
}

// endPauses ends the pauses whose time has come. It returns the time until the next
// call, which is at most the poll interval.
func (l *Local) endPauses(ctx context.Context) (time.Duration, error) {
	var next *stint.Time
	ended, err := l.end(ctx, "end pauses before retries", func(ctx context.Context) (ids []string, err error) {
		ids, next, err = l.c.Store.EndPauses(ctx, stint.TimeOf(l.c.Now()), reapBatch)
		return ids, err
	})
	if err != nil || next == nil {
		return l.c.Poll, err
	}
	if ended == reapBatch {
		return 0, nil
	}
	return max(0, min(l.c.Poll, next.Sub(l.c.Now()))), nil
}

// wakeRetries makes RunRetries read the pauses again.
func (l *Local) wakeRetries() {
	select {
	case l.paused <- struct{}{}:
	default:
	}
}
