package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/store"
)

// Append appends to the journal and passes the events to the feed.
func (l *Local) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendLimit)
	defer cancel()
	begin := l.c.Now()
	head, err := l.c.Store.Append(ctx, at, b)
	if err != nil {
		if _, fenced := errors.AsType[*store.FencedError](err); !fenced {
			l.c.Metrics.AppendFailed()
		}
		return 0, fmt.Errorf("append to %s: %w", at.RunID, err)
	}
	l.c.Metrics.Appended(len(b.Events), l.c.Now().Sub(begin))
	if len(b.Events) > 0 {
		for i := range b.Events {
			b.Events[i].Seq = at.After + 1 + int64(i)
		}
		l.c.Feed.Committed(at.RunID, b.Events)
	}
	return head, nil
}

// Sample stores metrics of a run, and where it executes.
func (l *Local) Sample(ctx context.Context, runID string, samples []stint.MetricsSample, place *store.Place) error {
	if err := l.c.Store.AddMetrics(ctx, runID, samples, place); err != nil {
		return fmt.Errorf("store metrics of %s: %w", runID, err)
	}
	return nil
}

// Finish ends the run. It wakes the run's readers, and also waiting workers, because a
// slot and possibly the session's next run became available.
func (l *Local) Finish(ctx context.Context, at store.Position, o store.Outcome) (stint.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CommitLimit)
	defer cancel()
	r, err := l.c.Store.Finish(ctx, at, o)
	if err != nil {
		if ctx.Err() != nil {
			l.NotifyEnded(at.RunID) // the run may have ended; receivers read its state
		}
		return stint.Run{}, fmt.Errorf("finish %s: %w", at.RunID, err)
	}
	l.NotifyEnded(at.RunID)
	if r.Status == stint.Pending {
		l.c.Metrics.AttemptRequeued(o.Reason)
		l.wakeRetries()
	} else {
		l.CountEnded(&r.Run)
	}
	return r.Run, nil
}

// AddCheckpoint attaches a checkpoint to a run that has already ended.
func (l *Local) AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, store.CommitLimit)
	defer cancel()
	if _, err := l.c.Store.AddCheckpoint(ctx, at, v, c); err != nil {
		return fmt.Errorf("add checkpoint of %s: %w", at.RunID, err)
	}
	return nil
}

// AddLogs adds entries to the system log of a run.
func (l *Local) AddLogs(ctx context.Context, runID string, entries []stint.LogEntry) error {
	ctx, cancel := context.WithTimeout(ctx, store.CommitLimit)
	defer cancel()
	if err := l.c.Store.AddLogs(ctx, runID, entries); err != nil {
		return fmt.Errorf("add to the log of %s: %w", runID, err)
	}
	return nil
}

// CountEnded adds a run that has ended to the metrics.
func (l *Local) CountEnded(r *stint.Run) {
	var usage *stint.Usage
	if json.Unmarshal(r.Usage, &usage) != nil {
		usage = nil // stored without usage
	}
	l.c.Metrics.RunEnded(r, usage)
}

// NotifyEnded wakes the readers and the worker of a run that ended, and workers
// that wait for runs.
func (l *Local) NotifyEnded(runID string) {
	l.c.Feed.Wake(runID)
	l.c.Bus.Publish(notify.TopicStop(runID))
	l.c.Bus.Publish(notify.TopicQueue)
}

// Renew extends the lease of a worker.
func (l *Local) Renew(ctx context.Context, workerID string, holds []string) ([]string, error) {
	stop, err := l.c.Store.Renew(ctx, workerID, holds, l.c.Lease)
	if err != nil {
		if errors.Is(err, store.ErrLeaseLost) {
			l.c.Metrics.LeaseLost()
		}
		return nil, fmt.Errorf("renew lease of %s: %w", workerID, err)
	}
	return stop, nil
}

// WatchStop returns a channel that receives a value when the run may have ended.
func (l *Local) WatchStop(runID string) (<-chan struct{}, func()) {
	return l.c.Bus.Subscribe(notify.TopicStop(runID))
}

// Owns reports whether the run is still running in the epoch at.Epoch.
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

// Drain removes a worker and reaps its runs.
func (l *Local) Drain(ctx context.Context, workerID string) error {
	if err := l.c.Store.EndWorker(ctx, workerID); err != nil {
		return fmt.Errorf("end worker %s: %w", workerID, err)
	}
	_, err := l.Reap(ctx)
	return err
}

// reapBatch is the maximum number of runs that Reap and Expire request from the store
// at once.
const reapBatch = 100

// Reap ends the runs of workers with an expired lease, or queues them again if their
// retries allow. It returns the number of these runs.
func (l *Local) Reap(ctx context.Context) (int, error) {
	for total := 0; ; {
		n, err := l.end(ctx, "reap lost workers", func(ctx context.Context) ([]string, error) {
			ids, err := l.c.Store.Reap(ctx, stint.TimeOf(l.c.Now()), reapBatch)
			l.countReaped(ctx, ids)
			return ids, err
		})
		if n > 0 {
			l.wakeRetries()
		}
		if total += n; err != nil || n < reapBatch {
			return total, err
		}
	}
}

// Expire ends at most 100 runs that were created before the given time and are still
// pending. It returns their number.
func (l *Local) Expire(ctx context.Context, before stint.Time) (int, error) {
	return l.end(ctx, "expire queued runs", func(ctx context.Context) ([]string, error) {
		ids, err := l.c.Store.Expire(ctx, before, stint.TimeOf(l.c.Now()), reapBatch)
		for range ids {
			l.countFailed(stint.ReasonQueueExpired)
		}
		return ids, err
	})
}

// countReaped adds reaped runs to the metrics: those that ended without their usage,
// which the server has not read, and the others as attempts.
func (l *Local) countReaped(ctx context.Context, ids []string) {
	l.c.Metrics.RunsReaped(len(ids))
	for _, id := range ids {
		status, _, err := l.c.Store.RunState(ctx, id)
		switch {
		case err != nil:
		case status == stint.Failed:
			l.countFailed(stint.ReasonWorkerLost)
		default:
			l.c.Metrics.AttemptRequeued(stint.ReasonWorkerLost)
		}
	}
}

func (l *Local) countFailed(reason stint.Reason) {
	var r stint.Run
	r.Status, r.StatusReason = stint.Failed, &reason
	l.c.Metrics.RunEnded(&r, nil)
}

// end calls f, which returns the IDs of the runs that it ended or queued again, and
// calls NotifyEnded for these runs even if f also returns an error. The context of f
// does not end with ctx. end returns the number of runs.
func (l *Local) end(ctx context.Context, doing string, f func(context.Context) ([]string, error)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := store.CommitContext(ctx)
	defer cancel()
	ids, err := f(ctx)
	for _, id := range ids {
		l.NotifyEnded(id)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return len(ids), err
}

// NotifyCreated counts a new run and wakes its readers. If no worker has claimed the run yet,
// it also wakes the workers that wait for runs.
func (l *Local) NotifyCreated(runID string, unclaimed bool) {
	l.c.Metrics.RunCreated()
	l.c.Feed.Wake(runID)
	if unclaimed {
		l.c.Bus.Publish(notify.TopicQueue)
	}
}
