package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

const selectCheckpoints = `select id, org_id, run_id, session_id, agent_id, agent_name, agent_version_id, artifact_name, artifact_version,
	volumes, variables, secret_names, home_digest, workspace_digest, created_at from checkpoints`

func scanCheckpoint(r Row) (c store.Checkpoint, err error) {
	return c, r.Scan(&c.ID, &c.OrgID, &c.RunID, &c.SessionID, &c.AgentID, &c.AgentName, &c.AgentVersionID, &c.ArtifactName, &c.ArtifactVersion,
		jsonOf{&c.Volumes}, jsonOf{&c.Variables}, jsonOf{&c.SecretNames}, &c.HomeDigest, &c.WorkspaceDigest, timeAt{&c.CreatedAt})
}

// Checkpoint returns a checkpoint.
func (s *Store) Checkpoint(ctx context.Context, org, id string) (store.Checkpoint, error) {
	return get(ctx, s, "reading a checkpoint", scanCheckpoint, selectCheckpoints+` where id = $1 and org_id = $2`, id, org)
}

// insertCheckpoint stores a checkpoint, pins the versions that it references, and makes
// it the session's newest unless a later run of the session has a checkpoint.
func insertCheckpoint(ctx context.Context, q Querier, c store.Checkpoint) error {
	err := execOne(ctx, q, store.ErrExists, `insert into checkpoints
			(id, org_id, run_id, session_id, agent_id, agent_name, agent_version_id, artifact_name, artifact_version,
			volumes, variables, secret_names, home_digest, workspace_digest, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) on conflict do nothing`,
		c.ID, c.OrgID, c.RunID, c.SessionID, c.AgentID, c.AgentName, c.AgentVersionID, textOrNil(c.ArtifactName), textOrNil(c.ArtifactVersion),
		asJSON(c.Volumes), asJSON(c.Variables), asJSON(c.SecretNames), c.HomeDigest, c.WorkspaceDigest, micros(c.CreatedAt))
	if err != nil {
		return err
	}
	pins := slices.Sorted(maps.Values(c.Volumes))
	if c.ArtifactVersion != nil {
		pins = append(pins, *c.ArtifactVersion)
	}
	slices.Sort(pins)
	var steps []Step
	for _, version := range slices.Compact(pins) {
		steps = append(steps, step(`insert into pins (org_id, version_id) values ($1, $2) on conflict do nothing`, c.OrgID, version))
	}
	return run(ctx, q, append(steps, step(`update sessions set checkpoint_id = $2 where id = $1 and not exists (
		select 1 from runs r join runs later on later.session_id = r.session_id and (later.created_at, later.id) > (r.created_at, r.id)
		where r.id = $3 and later.checkpoint_id is not null)`, c.SessionID, c.ID, c.RunID))...)
}

// saveState stores the version and the checkpoint of an outcome, if there are any, and
// sets their IDs in r. The caller stores r.
func (s *Store) saveState(ctx context.Context, q Querier, r *store.Run, o store.Outcome) error {
	if o.Version == nil && o.Checkpoint == nil {
		return nil
	}
	if err := s.checkEpoch(ctx, q, r.OrgID, epochOf(o)); err != nil {
		return err
	}
	return s.attachState(ctx, q, r, o)
}

// attachState is like saveState for snapshots that a row already references, so that
// no collection can have removed them.
func (s *Store) attachState(ctx context.Context, q Querier, r *store.Run, o store.Outcome) error {
	if o.Version != nil {
		v, moved, err := s.saveVersion(ctx, q, r, *o.Version, o.Status == stint.Completed)
		if err != nil {
			return err
		}
		r.ArtifactName, r.ArtifactVersion, r.HeadMovedFrom = &o.Version.Artifact.Name, &v, moved
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

// epochOf returns the earliest epoch under which a part of the outcome was stored.
func epochOf(o store.Outcome) int64 {
	switch {
	case o.Version == nil:
		return o.Checkpoint.Epoch
	case o.Checkpoint == nil:
		return o.Version.Commit.Epoch
	}
	return min(o.Version.Commit.Epoch, o.Checkpoint.Epoch)
}

// AddCheckpoint attaches the saved state of a run that ended without a Finish of its
// worker. The terminal event of such a run has no token; Finish stores one.
func (s *Store) AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) (store.Run, error) {
	r, err := change(ctx, s, "adding a checkpoint", func(ctx context.Context, q Querier) (store.Run, error) {
		var token string
		var found bool
		r, err := s.lockRun(ctx, q, at.RunID, into(&token, &found, value[string],
			`select token from journal where run_id = $1 order by seq desc limit 1`, at.RunID))
		if err != nil {
			return r, err
		}
		if r.Status == stint.Running || token != "" || r.Epoch != at.Epoch || r.Epoch == 0 {
			return r, errSlotTaken
		}
		if r.Status == stint.Pending {
			return r, s.addAttemptState(ctx, q, &r, v, &c)
		}
		if r.CheckpointID != nil {
			if *r.CheckpointID != c.ID {
				err = errSlotTaken
			}
			return r, err
		}
		if err := s.ensureMounted(ctx, q, &r); err != nil {
			return r, err
		}
		if err := s.saveState(ctx, q, &r, store.Outcome{Status: r.Status, Version: v, Checkpoint: &c}); err != nil {
			return r, err
		}
		if err := run(ctx, q, append(endLeaving(&r), saveEnd(&r))...); err != nil {
			return r, err
		}
		return r, readAttempts(ctx, q, &r)
	})
	return r, s.fenced(ctx, at.RunID, err)
}

// saveVersion commits the version of a run to the artifact with the name in v and returns
// the version's ID and the previous head that it replaced; see commitRun. It creates the
// artifact if it does not exist.
func (s *Store) saveVersion(ctx context.Context, q Querier, r *store.Run, v store.RunVersion, completed bool) (string, *stint.HeadMove, error) {
	const byName = `l.org_id = $1 and l.kind = $2 and l.name = $3`
	find := func() (lockedFileSet, error) {
		return s.lockFileSet(ctx, q, byName, r.OrgID, string(stint.Artifacts), v.Artifact.Name)
	}
	t, err := find()
	if errors.Is(err, store.ErrNotFound) {
		v.Artifact.OrgID, v.Artifact.Kind = r.OrgID, stint.Artifacts
		if _, err = exec(ctx, q, insertFileSet, fileSetValues(v.Artifact)...); err == nil {
			t, err = find() // the new artifact, or one that was created concurrently
		}
	}
	if err != nil {
		return "", nil, err
	}
	v.Commit.SessionID = r.SessionID
	return commitRun(ctx, q, t, v.Commit, completed)
}
