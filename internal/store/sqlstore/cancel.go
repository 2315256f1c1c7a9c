package sqlstore

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Cancel ends a pending or running run as cancelled.
func (s *Store) Cancel(ctx context.Context, org, id string, at stint.Time) (store.Run, error) {
	return change(ctx, s, "cancelling a run", func(ctx context.Context, q Querier) (store.Run, error) {
		r, err := s.lockRun(ctx, q, id)
		if err == nil && r.OrgID != org {
			err = store.ErrNotFound
		}
		if err == nil && r.Status.Final() {
			err = &store.StateError{Status: r.Status}
		}
		if err != nil {
			return r, err
		}
		message := "The run was cancelled by a user."
		o := store.Outcome{Status: stint.Cancelled, Reason: stint.ReasonCancelled, Message: &message, At: at, ExecutionTimeMs: executionMs(r, at)}
		if err = s.end(ctx, q, &r, o, nil); err == nil {
			err = readAttempts(ctx, q, &r)
		}
		return r, err
	})
}

// executionMs returns the milliseconds from the start of the current attempt to at, or 0
// if no attempt was started.
func executionMs(r store.Run, at stint.Time) int64 {
	if r.AttemptStartedAt == nil {
		return 0
	}
	return max(0, at.Sub(r.AttemptStartedAt.Time).Milliseconds())
}

// failure returns the outcome of a run that failed for an external reason.
func failure(r store.Run, reason stint.Reason, message string, at stint.Time) store.Outcome {
	return store.Outcome{
		Status: stint.Failed, Reason: reason, Message: &message, Error: &message, ErrorCode: string(reason), At: at, ExecutionTimeMs: executionMs(r, at),
	}
}

// Expire ends pending runs that were created before the given time, each in its
// own transaction.
func (s *Store) Expire(ctx context.Context, before, at stint.Time, n int) ([]string, error) {
	ids, err := all(ctx, s.db.Read, value[string], `select id from runs where status = 'pending' and created_at < $1
			and (retry_at is null or retry_at < $1)
		order by created_at, id limit $2`, micros(before), n)
	if err != nil {
		return nil, s.Wrap("finding expired runs", err)
	}
	return s.each(ctx, ids, "expiring a run", func(ctx context.Context, q Querier, id string) (bool, error) {
		r, err := s.lockRun(ctx, q, id)
		if err != nil || r.Status != stint.Pending || !r.CreatedAt.Before(before.Time) || r.RetryAt != nil && !r.RetryAt.Before(before.Time) {
			return false, err
		}
		return true, s.end(ctx, q, &r, failure(r, stint.ReasonQueueExpired,
			"The run waited in the queue longer than allowed and was not started.", at), nil)
	})
}

// each calls f for every run in a separate transaction, so that few locks are held and
// a failure affects one run. It returns the runs for which f returned true. It ignores
// store.ErrNotFound and stops at any other error.
func (s *Store) each(ctx context.Context, ids []string, doing string, f func(ctx context.Context, q Querier, id string) (bool, error)) ([]string, error) {
	var done []string
	for _, id := range ids {
		did, err := change(ctx, s, doing, func(ctx context.Context, q Querier) (bool, error) { return f(ctx, q, id) })
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return done, err
		}
		if did {
			done = append(done, id)
		}
	}
	return done, nil
}
