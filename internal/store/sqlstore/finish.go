package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/plainjson"
	"github.com/stint-dev/stint/internal/store"
)

// end ends a locked run: it stores the status and the last events, updates the counters,
// makes the session's next run ready, removes the run's secrets, and calls release for
// its mounts. owned is the number of the event that the last events must follow; nil
// means any head.
func (s *Store) end(ctx context.Context, q Querier, r *store.Run, o store.Outcome, owned *int64) error {
	was, at := r.Status, stint.TimeOf(o.At.Time)
	cancelled := was == stint.Running && o.Status == stint.Cancelled && owned == nil
	if was == stint.Pending && r.RetryAt != nil {
		if err := s.adoptState(ctx, q, r); err != nil {
			return err
		}
	}
	total := r.SpentMs + o.ExecutionTimeMs
	r.Status, r.CompletedAt, r.ExecutionTimeMs = o.Status, &at, &total
	r.StatusMessage, r.ExitCode, r.Result, r.Sealed = o.Message, o.ExitCode, o.Result, nil
	if o.Status == stint.Failed {
		r.Error = o.Error
	}
	setAttempt(r, o)
	if o.Reason != "" {
		r.StatusReason = &o.Reason
	}
	var next string
	var hasNext bool
	e := transition{run: r.ID, owned: owned, token: o.Token, events: EncodeEvents(endEvents(r, o))}
	err := run(ctx, q, append(release(r, cancelled), e.insert(), saveEnd(r),
		step(`update run_specs set sealed = null where run_id = $1 and sealed is not null`, r.ID),
		readyNext(r.SessionID, &next, &hasNext))...)
	if err == nil {
		err = e.settle(ctx, q)
	}
	if err != nil {
		return err
	}
	running, ready := -1, 0
	if was != stint.Running {
		running, ready = 0, -1
	}
	err = runAtEnd(ctx, q, s.count(r.ID, running, ready))
	if err == nil && hasNext {
		err = runAtEnd(ctx, q, s.count(next, 0, 1))
	}
	return err
}

// saveEnd updates the columns that the end of a run changes.
func saveEnd(r *store.Run) Step {
	var reason any
	if r.StatusReason != nil {
		reason = string(*r.StatusReason)
	}
	return step(`update runs set status = $2, completed_at = $3, execution_ms = $4, reason = $5, exit_code = $6, error = $7, usage = $8,
			checkpoint_id = $9, artifact_name = $10, artifact_version = $11, result = $12, head_moved_from = $13, status_message = $14,
			isolation = $15, image_digest = $16 where id = $1`,
		r.ID, string(r.Status), microsOrNil(r.CompletedAt), *r.ExecutionTimeMs, reason, r.ExitCode, textOrNil(r.Error), raw(r.Usage),
		textOrNil(r.CheckpointID), textOrNil(r.ArtifactName), textOrNil(r.ArtifactVersion), raw(r.Result), headMove(r.HeadMovedFrom),
		textOrNil(r.StatusMessage), textOrNil(r.Isolation), textOrNil(r.ImageDigest))
}

// headMove returns the column value of a move of a head.
func headMove(m *stint.HeadMove) any {
	if m == nil {
		return nil
	}
	return string(encode(m))
}

// statusEvent returns the event of a change of status.
func statusEvent(s stint.Status, at stint.Time) stint.Event {
	return stint.Event{Type: stint.EventStatus, At: at, Data: encode(stint.StatusData{Status: s})}
}

// endEvents returns the last events of a run: error if there is one, status, and
// complete, with the values of the run's row.
func endEvents(r *store.Run, o store.Outcome) []stint.Event {
	var events []stint.Event
	if o.Error != nil {
		events = append(events, stint.Event{Type: stint.EventError, At: o.At, Data: encode(stint.ErrorData{Message: *o.Error, Code: o.ErrorCode})})
	}
	return append(events, statusEvent(o.Status, o.At), stint.Event{Type: stint.EventComplete, At: o.At, Data: encode(stint.CompleteData{
		Status: r.Status, ExecutionTimeMs: *r.ExecutionTimeMs, StatusReason: r.StatusReason, StatusMessage: r.StatusMessage, ExitCode: r.ExitCode,
		ArtifactName: r.ArtifactName, ArtifactVersion: r.ArtifactVersion, CheckpointID: r.CheckpointID, HeadMovedFrom: r.HeadMovedFrom,
		Usage: r.Usage, Result: r.Result,
	})})
}

func encode(v any) json.RawMessage {
	data, err := plainjson.Marshal(v)
	if err != nil {
		panic("sqlstore: " + err.Error()) // payloads are strings, numbers, and valid JSON
	}
	return data
}

// Finish ends the run at.RunID if at owns it.
func (s *Store) Finish(ctx context.Context, at store.Position, o store.Outcome) (store.Run, error) {
	for name, v := range map[string]json.RawMessage{"usage": o.Usage, "result": o.Result} {
		if v != nil && !json.Valid(v) {
			return store.Run{}, fmt.Errorf("finish a run: its %s is not valid JSON", name)
		}
	}
	entries, err := EncodeEntries(o.Logs)
	if err != nil {
		return store.Run{}, err
	}
	r, err := change(ctx, s, "finishing a run", func(ctx context.Context, q Querier) (store.Run, error) {
		var owned bool
		r, err := s.lockRun(ctx, q, at.RunID, exists(&owned, `select p.last from journal p
			where p.run_id = $1 and p.seq = (select max(seq) from journal where run_id = $1) and p.last = $2 and p.owner = $3 and p.owner > 0 and `+alive,
			at.RunID, at.After, at.Epoch))
		switch {
		case err != nil:
			return r, err
		case r.Status.Final() || !owned:
			if err := checkFinished(ctx, q, at, o.Token, r); err != nil {
				return r, err
			}
			return r, readAttempts(ctx, q, &r)
		}
		if err := s.conclude(ctx, q, &r, o, &at.After); err != nil {
			return r, err
		}
		if entries.Count > 0 {
			err = InsertEntries(ctx, q, EncodedBatch{At: at, Token: o.Token, Entries: entries})
		}
		return r, err
	})
	return r, s.fenced(ctx, at.RunID, err)
}

// conclude ends a locked run with an outcome, or queues the run again if its retries
// allow.
func (s *Store) conclude(ctx context.Context, q Querier, r *store.Run, o store.Outcome, owned *int64) error {
	if pause, ok := retryAfter(r, o); ok {
		return s.requeue(ctx, q, r, o, pause, owned)
	}
	save := func() error { return s.saveState(ctx, q, r, o) }
	if o.Checkpoint == nil && r.Epoch > 1 {
		save = func() error { return s.adoptState(ctx, q, r) }
	}
	if err := save(); err != nil {
		return err
	}
	if err := s.end(ctx, q, r, o, owned); err != nil {
		return err
	}
	return readAttempts(ctx, q, r)
}

// fenced returns err, the result of a transaction that has ended. It replaces
// errSlotTaken and store.ErrNotFound by a *store.FencedError with the state of the run.
func (s *Store) fenced(ctx context.Context, run string, err error) error {
	if errors.Is(err, errSlotTaken) || errors.Is(err, store.ErrNotFound) {
		return fence(ctx, s.db.Read, run)
	}
	return err
}

// checkFinished returns nil if an earlier Finish with the same position and token ended
// the run or the attempt, and errSlotTaken otherwise.
func checkFinished(ctx context.Context, q Querier, at store.Position, token string, r store.Run) error {
	if !r.Status.Final() || r.Epoch != at.Epoch {
		return checkAttempt(ctx, q, at, token)
	}
	_, err := one(ctx, q, value[int64], `select last from journal
		where run_id = $1 and seq = $2 and owner = 0 and token = $3 and token <> ''`, at.RunID, at.After+1, token)
	if errors.Is(err, store.ErrNotFound) {
		return errSlotTaken
	}
	return err
}
