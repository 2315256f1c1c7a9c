package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// end ends a locked run: status, events, counters, successor, secrets. Owned is
// the position that the end must follow; nil for wherever the head is.
func (s *Store) end(ctx context.Context, q Querier, r *store.Run, o store.Outcome, owned *int64) error {
	was, at := r.Status, stint.TimeOf(o.At.Time)
	cancelled := was == stint.Running && o.Status == stint.Cancelled && owned == nil
	r.Status, r.CompletedAt, r.ExecutionTimeMs = o.Status, &at, &o.ExecutionTimeMs
	r.Error, r.ExitCode, r.Usage, r.Result, r.Sealed = o.Error, o.ExitCode, o.Usage, o.Result, nil
	if o.Reason != "" {
		r.StatusReason = &o.Reason
	}
	var next string
	var passed bool
	e := transition{run: r.ID, owned: owned, token: o.Token, events: EncodeEvents(endEvents(r, o))}
	err := run(ctx, q, append(letGo(r, cancelled), e.insert(), saveEnd(r),
		step(`update run_specs set sealed = null where run_id = $1 and sealed is not null`, r.ID),
		passTurn(r.SessionID, &next, &passed))...)
	if err == nil {
		err = e.settle(ctx, q)
	}
	if err != nil {
		return err
	}
	if was == stint.Running {
		err = runAtEnd(ctx, q, s.count(r.ID, -1, 0))
	} else {
		err = runAtEnd(ctx, q, s.count(r.ID, 0, -1))
	}
	if err == nil && passed {
		err = runAtEnd(ctx, q, s.count(next, 0, 1))
	}
	return err
}

// saveEnd writes what the end changed of the row.
func saveEnd(r *store.Run) Step {
	var reason any
	if r.StatusReason != nil {
		reason = string(*r.StatusReason)
	}
	return step(`update runs set status = $2, completed_at = $3, execution_ms = $4, reason = $5, exit_code = $6, error = $7, usage = $8,
			checkpoint_id = $9, artifact_name = $10, artifact_version = $11, result = $12 where id = $1`,
		r.ID, string(r.Status), microsOrNil(r.CompletedAt), *r.ExecutionTimeMs, reason, r.ExitCode, textOrNil(r.Error), raw(r.Usage),
		textOrNil(r.CheckpointID), textOrNil(r.ArtifactName), textOrNil(r.ArtifactVersion), raw(r.Result))
}

// statusEvent tells a change of status.
func statusEvent(s stint.Status, at stint.Time) stint.Event {
	return stint.Event{Type: stint.EventStatus, At: at, Data: encode(stint.StatusData{Status: s})}
}

// endEvents are the last events of a run, as its row tells them.
func endEvents(r *store.Run, o store.Outcome) []stint.Event {
	var events []stint.Event
	if o.Error != nil {
		events = append(events, stint.Event{Type: stint.EventError, At: o.At, Data: encode(stint.ErrorData{Message: *o.Error, Code: o.ErrorCode})})
	}
	return append(events, statusEvent(o.Status, o.At), stint.Event{Type: stint.EventComplete, At: o.At, Data: encode(stint.CompleteData{
		Status: r.Status, ExecutionTimeMs: *r.ExecutionTimeMs, StatusReason: r.StatusReason, ExitCode: r.ExitCode,
		ArtifactName: r.ArtifactName, ArtifactVersion: r.ArtifactVersion, CheckpointID: r.CheckpointID,
		Usage: r.Usage, Result: r.Result,
	})})
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("sqlstore: " + err.Error()) // payloads are strings, numbers and valid JSON
	}
	return data
}

// Finish ends a run that the position owns.
func (s *Store) Finish(ctx context.Context, at store.Position, o store.Outcome) (store.Run, error) {
	for name, v := range map[string]json.RawMessage{"usage": o.Usage, "result": o.Result} {
		if v != nil && !json.Valid(v) {
			return store.Run{}, fmt.Errorf("finish a run: its %s is no JSON", name)
		}
	}
	entries, err := EncodeEntries(o.Logs)
	if err != nil {
		return store.Run{}, err
	}
	r, err := change(ctx, s, "finishing a run", func(ctx context.Context, q Querier) (store.Run, error) {
		var last int64
		var owned bool
		r, err := s.lockRun(ctx, q, at.RunID, into(&last, &owned, value[int64], `select p.last from journal p
			where p.run_id = $1 and p.seq = (select max(seq) from journal where run_id = $1) and p.last = $2 and p.owner = $3 and p.owner > 0 and `+alive,
			at.RunID, at.After, at.Epoch))
		switch {
		case err != nil:
			return r, err
		case r.Status.Final():
			return r, finished(ctx, q, at, o.Token, r)
		case !owned:
			return r, errSlotTaken
		}
		if err := s.leave(ctx, q, &r, o); err != nil {
			return r, err
		}
		if err := s.end(ctx, q, &r, o, &at.After); err != nil {
			return r, err
		}
		if entries.Count > 0 {
			err = insertEntries(ctx, q, r.ID, o.Token, entries)
		}
		return r, err
	})
	return r, s.fenced(ctx, at.RunID, err)
}

// fenced turns the loss of a position into the error that tells where the run
// stands, now that the transaction and what it tried is undone.
func (s *Store) fenced(ctx context.Context, run string, err error) error {
	if errors.Is(err, errSlotTaken) || errors.Is(err, store.ErrNotFound) {
		return fence(ctx, s.db.Read, run)
	}
	return err
}

// finished is nil when the run was ended by this very finish.
func finished(ctx context.Context, q Querier, at store.Position, token string, r store.Run) error {
	_, err := one(ctx, q, value[int64], `select last from journal
		where run_id = $1 and seq = $2 and owner = 0 and token = $3 and token <> ''`, at.RunID, at.After+1, token)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Epoch != at.Epoch {
		return errSlotTaken
	}
	return err
}

// leave stores what the run leaves behind, its version and its checkpoint, and
// names them in the run.
func (s *Store) leave(ctx context.Context, q Querier, r *store.Run, o store.Outcome) error {
	if o.Version == nil && o.Checkpoint == nil {
		return nil
	}
	if err := s.nameable(ctx, q, r.OrgID, epochOf(o)); err != nil {
		return err
	}
	if o.Version != nil {
		v, err := s.leaveVersion(ctx, q, r.OrgID, *o.Version, o.Status == stint.Completed)
		if err != nil {
			return err
		}
		r.ArtifactName, r.ArtifactVersion = &o.Version.Artifact.Name, &v
	}
	if o.Checkpoint == nil {
		return nil
	}
	c := *o.Checkpoint
	c.OrgID, c.RunID, c.SessionID, c.ArtifactVersion = r.OrgID, r.ID, r.SessionID, nil
	if o.Version != nil {
		c.ArtifactName, c.ArtifactVersion = r.ArtifactName, r.ArtifactVersion
	}
	r.CheckpointID = &c.ID
	return insertCheckpoint(ctx, q, c)
}

// epochOf is the earliest epoch under which something of the outcome was stored.
func epochOf(o store.Outcome) int64 {
	switch {
	case o.Version == nil:
		return o.Checkpoint.Epoch
	case o.Checkpoint == nil:
		return o.Version.Commit.Epoch
	}
	return min(o.Version.Commit.Epoch, o.Checkpoint.Epoch)
}

// AddCheckpoint attaches what a worker saved of a run that ended by other
// hands, whose terminal event therefore carries no token.
func (s *Store) AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) (store.Run, error) {
	r, err := change(ctx, s, "adding a checkpoint", func(ctx context.Context, q Querier) (store.Run, error) {
		var token string
		var found bool
		r, err := s.lockRun(ctx, q, at.RunID, into(&token, &found, value[string],
			`select token from journal where run_id = $1 order by seq desc limit 1`, at.RunID))
		if err != nil {
			return r, err
		}
		if !r.Status.Final() || token != "" || r.Epoch != at.Epoch || r.Epoch == 0 {
			return r, errSlotTaken
		}
		if r.CheckpointID != nil {
			if *r.CheckpointID != c.ID {
				err = errSlotTaken
			}
			return r, err
		}
		if err := s.leaving(ctx, q, &r); err != nil {
			return r, err
		}
		if err := s.leave(ctx, q, &r, store.Outcome{Status: r.Status, Version: v, Checkpoint: &c}); err != nil {
			return r, err
		}
		return r, run(ctx, q, append(left(&r), saveEnd(&r))...)
	})
	return r, s.fenced(ctx, at.RunID, err)
}

// leaveVersion commits a version to the artifact of that name, which it
// creates where it is missing, and returns the version's identifier.
func (s *Store) leaveVersion(ctx context.Context, q Querier, org string, v store.RunVersion, completed bool) (string, error) {
	const byName = `l.org_id = $1 and l.kind = $2 and l.name = $3`
	find := func() (lockedTree, error) {
		return s.lockTree(ctx, q, byName, org, string(stint.Artifacts), v.Artifact.Name)
	}
	t, err := find()
	if errors.Is(err, store.ErrNotFound) {
		v.Artifact.OrgID, v.Artifact.Kind = org, stint.Artifacts
		if _, err = exec(ctx, q, insertTree, treeValues(v.Artifact)...); err == nil {
			t, err = find() // ours, or one that was made in between
		}
	}
	if err != nil {
		return "", err
	}
	v.Commit.IfHead, v.Commit.KeepHead = nil, !completed
	made, _, err := commit(ctx, q, t, v.Commit)
	return made.ID, err
}
