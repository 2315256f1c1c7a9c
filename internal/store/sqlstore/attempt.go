package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// retryAfter reports whether the run starts again after an outcome, and returns the
// pause before the next attempt.
func retryAfter(r *store.Run, o store.Outcome) (time.Duration, bool) {
	if o.Status == stint.Completed || o.Status == stint.Cancelled {
		return 0, false
	}
	return r.Retries.After(o.Reason, int(r.Epoch))
}

// requeue ends the current attempt of a locked run and queues the run again. owned is
// as for end.
func (s *Store) requeue(ctx context.Context, q Querier, r *store.Run, o store.Outcome, pause time.Duration, owned *int64) error {
	setAttempt(r, o)
	state, err := s.encodeState(ctx, q, r, o)
	if err != nil {
		return err
	}
	e := transition{run: r.ID, owned: owned, token: o.Token, events: EncodeEvents([]stint.Event{retryEvent(r, o, pause)})}
	// Counters ignore a run that is not ready, so count precedes the update.
	if err := run(ctx, q, s.count(r.ID, -1, bit(pause == 0)), e.insert()); err != nil {
		return err
	}
	if err := e.settle(ctx, q); err != nil {
		return err
	}
	at := stint.TimeOf(o.At.Time)
	started := at
	if r.AttemptStartedAt != nil {
		started = *r.AttemptStartedAt
	}
	retryAt := stint.Time{Time: at.Add(pause)}
	var steps []Step
	if state != nil {
		steps = append(steps, step(`update attempts set state = null where run_id = $1 and state is not null`, r.ID))
	}
	steps = append(steps,
		step(`insert into attempts (run_id, number, worker_id, isolation, image_digest, started_at, ended_at, reason, event, state)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			r.ID, r.Epoch, r.WorkerID, textOrNil(r.Isolation), textOrNil(r.ImageDigest), micros(started), micros(at), string(o.Reason), e.head, state),
		step(`update runs set status = 'pending', ready = $2, retry_at = $3, attempt_started_at = null, spent_ms = spent_ms + $4, usage = $5,
				isolation = null, image_digest = null where id = $1`,
			r.ID, bit(pause == 0), micros(retryAt), o.ExecutionTimeMs, raw(r.Usage)))
	if err := run(ctx, q, steps...); err != nil {
		return err
	}
	r.Status, r.RetryAt, r.AttemptStartedAt, r.SpentMs = stint.Pending, &retryAt, nil, r.SpentMs+o.ExecutionTimeMs
	r.Isolation, r.ImageDigest = nil, nil
	return readAttempts(ctx, q, r)
}

// encodeState returns the state that an attempt left, or nil if it left none.
func (s *Store) encodeState(ctx context.Context, q Querier, r *store.Run, o store.Outcome) (any, error) {
	if o.Checkpoint == nil {
		return nil, nil
	}
	if err := s.checkEpoch(ctx, q, r.OrgID, epochOf(o)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(store.AttemptState{Checkpoint: o.Checkpoint, Version: o.Version})
	if err != nil {
		return nil, fmt.Errorf("encode the state of an attempt: %w", err)
	}
	return string(text), nil
}

// retryEvent returns the status event of a run that is queued again.
func retryEvent(r *store.Run, o store.Outcome, pause time.Duration) stint.Event {
	note := fmt.Sprintf("Attempt %d of %d ended (%s).", r.Epoch, r.Retries.Max+1, o.Reason)
	if o.Message != nil {
		note += " " + *o.Message
	}
	if pause > 0 {
		note += fmt.Sprintf(" The next attempt starts in %s.", pause.Round(time.Millisecond))
	}
	return stint.Event{Type: stint.EventStatus, At: o.At, Data: encode(stint.StatusData{Status: stint.Pending, Attempt: int(r.Epoch), Note: note})}
}

// addAttemptState adds a state to the last attempt of a locked run that is queued again.
// The attempt must not have another state.
func (s *Store) addAttemptState(ctx context.Context, q Querier, r *store.Run, v *store.RunVersion, c *store.Checkpoint) error {
	last, err := readState(ctx, q, r.ID)
	if err == nil && last.Checkpoint.ID == c.ID {
		return readAttempts(ctx, q, r) // the call is repeated
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	state, err := s.encodeState(ctx, q, r, store.Outcome{Version: v, Checkpoint: c})
	if err != nil {
		return err
	}
	var free bool
	err = run(ctx, q,
		exists(&free, `select 1 from attempts where run_id = $1 and number = $2 and state is null`, r.ID, r.Epoch),
		step(`update attempts set state = null where run_id = $1 and number < $2`, r.ID, r.Epoch),
		step(`update attempts set state = $3 where run_id = $1 and number = $2`, r.ID, r.Epoch, state))
	if err == nil && !free {
		err = errSlotTaken
	}
	if err != nil {
		return err
	}
	return readAttempts(ctx, q, r)
}

// checkAttempt returns nil if an earlier Finish with the same position and token ended
// the attempt and queued the run again, and errSlotTaken otherwise.
func checkAttempt(ctx context.Context, q Querier, at store.Position, token string) error {
	_, err := one(ctx, q, value[int64], `select a.event from attempts a join journal j on j.run_id = a.run_id and j.seq = a.event
		where a.run_id = $1 and a.number = $2 and a.event = $3 and j.owner = 0 and j.token = $4 and j.token <> ''`,
		at.RunID, at.Epoch, at.After+1, token)
	if errors.Is(err, store.ErrNotFound) {
		return errSlotTaken
	}
	return err
}

// readState returns the state that the newest ended attempt with a state left, or the
// error store.ErrNotFound.
func readState(ctx context.Context, q Querier, run string) (v store.AttemptState, err error) {
	text, err := one(ctx, q, value[string], `select state from attempts where run_id = $1 and state is not null order by number desc limit 1`, run)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, fmt.Errorf("decode the state of an attempt: %w", err)
	}
	if v.Version != nil {
		v.Version.Artifact.Kind = stint.Artifacts // not part of the JSON form
	}
	return v, nil
}

// AttemptState returns the state that an ended attempt left.
func (s *Store) AttemptState(ctx context.Context, run string) (store.AttemptState, error) {
	v, err := readState(ctx, s.db.Read, run)
	return v, s.Wrap("reading the state of an attempt", err)
}

// adoptState attaches the state that an earlier attempt left to a run that ends without
// a state of its own.
func (s *Store) adoptState(ctx context.Context, q Querier, r *store.Run) error {
	v, err := readState(ctx, q, r.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.attachState(ctx, q, r, store.Outcome{Status: stint.Failed, Version: v.Version, Checkpoint: v.Checkpoint})
}

// setAttempt sets the members of a run that describe its current attempt.
func setAttempt(r *store.Run, o store.Outcome) {
	if o.Usage != nil {
		r.Usage = o.Usage
	}
	if o.Isolation != "" {
		r.Isolation = &o.Isolation
	}
	if o.ImageDigest != "" {
		r.ImageDigest = &o.ImageDigest
	}
}

// describeAttempt sets Attempts to the current attempt, and the worker of the run.
func describeAttempt(r *store.Run) {
	r.Attempts, r.Worker = []stint.Attempt{}, nil
	if r.AttemptStartedAt == nil || r.Epoch == 0 {
		return
	}
	worker := r.WorkerID
	r.Worker = &worker
	r.Attempts = append(r.Attempts, stint.Attempt{
		Number: int(r.Epoch), WorkerID: worker, Isolation: r.Isolation, ImageDigest: r.ImageDigest,
		StartedAt: *r.AttemptStartedAt, EndedAt: r.CompletedAt, StatusReason: r.StatusReason,
	})
}

// readAttempts sets Attempts to all attempts of a run. It queries the database only if
// the run may have had several.
func readAttempts(ctx context.Context, q Querier, r *store.Run) error {
	describeAttempt(r)
	if r.Epoch < 2 && r.RetryAt == nil {
		return nil
	}
	earlier, err := all(ctx, q, scanAttempt, `select number, worker_id, isolation, image_digest, started_at, ended_at, reason
		from attempts where run_id = $1 order by number`, r.ID)
	r.Attempts = slices.Concat(earlier, r.Attempts)
	return err
}

func scanAttempt(r Row) (a stint.Attempt, err error) {
	return a, r.Scan(&a.Number, &a.WorkerID, &a.Isolation, &a.ImageDigest, timeAt{&a.StartedAt}, timeOr{&a.EndedAt}, &a.StatusReason)
}

// paused is the condition that a run waits for the end of its pause.
const paused = `status = 'pending' and ready = 0 and retry_at is not null`

// EndPauses makes runs claimable whose pause has ended.
func (s *Store) EndPauses(ctx context.Context, at stint.Time, n int) (ids []string, next *stint.Time, err error) {
	const doing = "ending the pauses of runs"
	pauses, err := all(ctx, s.db.Read, func(r Row) (p pausedRun, err error) { return p, r.Scan(&p.id, timeAt{&p.until}) },
		`select id, retry_at from runs where `+paused+` order by retry_at, id limit $1`, n+1)
	if err != nil {
		return nil, nil, s.Wrap(doing, err)
	}
	var due []string
	for len(due) < min(n, len(pauses)) && !pauses[len(due)].until.After(at.Time) {
		due = append(due, pauses[len(due)].id)
	}
	if len(due) < len(pauses) {
		next = &pauses[len(due)].until
	}
	ids, err = s.each(ctx, due, doing, func(ctx context.Context, q Querier, id string) (bool, error) {
		var changed bool
		_, err := s.lockRun(ctx, q, id, exists(&changed, `update runs set ready = 1 where id = $1 and `+paused+` and retry_at <= $2 returning id`, id, micros(at)))
		if err != nil || !changed {
			return false, err
		}
		return true, runAtEnd(ctx, q, s.count(id, 0, 1))
	})
	return ids, next, err
}

// pausedRun is a run that waits for the end of its pause.
type pausedRun struct {
	id    string
	until stint.Time
}

// maxRetries returns how often a run may start again.
func maxRetries(n store.NewRun) int {
	if n.Retries == nil {
		return 0
	}
	return n.Retries.Max
}
