package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/store"
)

// Append adds to the journal and hands the events to those who watch.
func (l *Local) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendLimit)
	defer cancel()
	head, err := l.c.Store.Append(ctx, at, b)
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", at.RunID, err)
	}
	if len(b.Events) > 0 {
		for i := range b.Events {
			b.Events[i].Seq = at.After + 1 + int64(i)
		}
		l.c.Feed.Committed(at.RunID, b.Events)
	}
	return head, nil
}

// Sample stores metrics of a run.
func (l *Local) Sample(ctx context.Context, runID string, samples []stint.MetricsSample) error {
	if err := l.c.Store.AddMetrics(ctx, runID, samples); err != nil {
		return fmt.Errorf("store metrics of %s: %w", runID, err)
	}
	return nil
}

// Finish ends the run and wakes whom it may concern: its readers, and workers,
// since a place and perhaps the session's next run became free.
func (l *Local) Finish(ctx context.Context, at store.Position, o store.Outcome) (stint.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	r, err := l.c.Store.Finish(ctx, at, o)
	if err != nil {
		if ctx.Err() != nil {
			l.Ended(at.RunID) // perhaps; who is woken looks
		}
		return stint.Run{}, fmt.Errorf("finish %s: %w", at.RunID, err)
	}
	l.Ended(at.RunID)
	return r.Run, nil
}

// AddCheckpoint attaches what was saved of a run that ended by other hands.
func (l *Local) AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	if _, err := l.c.Store.AddCheckpoint(ctx, at, v, c); err != nil {
		return fmt.Errorf("keep checkpoint of %s: %w", at.RunID, err)
	}
	return nil
}

// Ended wakes whom the end of a run may concern.
func (l *Local) Ended(runID string) {
	l.c.Feed.Wake(runID)
	l.c.Bus.Publish(notify.TopicStop(runID))
	l.c.Bus.Publish(notify.TopicQueue)
}

// Renew extends the lease.
func (l *Local) Renew(ctx context.Context, workerID string, holds []string) ([]string, error) {
	stop, err := l.c.Store.Renew(ctx, workerID, holds, l.c.Lease)
	if err != nil {
		return nil, fmt.Errorf("renew lease of %s: %w", workerID, err)
	}
	return stop, nil
}

// WatchStop watches for the end of a held run by other hands.
func (l *Local) WatchStop(runID string) (<-chan struct{}, func()) {
	return l.c.Bus.Subscribe(notify.TopicStop(runID))
}

// Owns reports whether the run is still running under that epoch.
func (l *Local) Owns(ctx context.Context, at store.Position) (bool, error) {
	status, epoch, err := l.c.Store.RunState(ctx, at.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read state of %s: %w", at.RunID, err)
	}
	return status == stint.Running && epoch == at.Epoch, nil
}

// Drain ends the worker's life and reaps what it held.
func (l *Local) Drain(ctx context.Context, workerID string) error {
	if err := l.c.Store.EndWorker(ctx, workerID); err != nil {
		return fmt.Errorf("end worker %s: %w", workerID, err)
	}
	_, err := l.Reap(ctx)
	return err
}

// reapBatch is how many runs one transaction of the reaper ends.
const reapBatch = 100

// Reap ends, or gives back, the runs of workers whose lease ran out, and
// returns how many there were.
func (l *Local) Reap(ctx context.Context) (int, error) {
	for total := 0; ; {
		n, err := l.end(ctx, "reap lost workers", func(ctx context.Context) ([]string, error) {
			return l.c.Store.Reap(ctx, stint.TimeOf(l.c.Now()), reapBatch)
		})
		if total += n; err != nil || n < reapBatch {
			return total, err
		}
	}
}

// Expire ends runs that waited longer than allowed.
func (l *Local) Expire(ctx context.Context, before stint.Time) (int, error) {
	return l.end(ctx, "expire queued runs", func(ctx context.Context) ([]string, error) {
		return l.c.Store.Expire(ctx, before, stint.TimeOf(l.c.Now()), reapBatch)
	})
}

// end tells of the runs that some ended, also when others could not be.
func (l *Local) end(ctx context.Context, doing string, some func(context.Context) ([]string, error)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := CommitContext(ctx)
	defer cancel()
	ids, err := some(ctx)
	for _, id := range ids {
		l.Ended(id)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return len(ids), err
}

// Created wakes whom a new run may concern: its readers, and workers when
// nobody claimed it yet.
func (l *Local) Created(runID string, unclaimed bool) {
	l.c.Feed.Wake(runID)
	if unclaimed {
		l.c.Bus.Publish(notify.TopicQueue)
	}
}
