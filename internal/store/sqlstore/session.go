package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/store"
)

const selectSessions = `select id, agent_id, agent_name, checkpoint_id, last_run_id, created_at, updated_at, org_id from sessions`

func scanSession(r row) (v store.Session, err error) {
	return v, r.Scan(&v.ID, &v.AgentID, &v.AgentName, &v.CheckpointID, &v.LastRunID, timeAt{&v.CreatedAt}, timeAt{&v.UpdatedAt}, &v.OrgID)
}

// Session reads a session.
func (s *Store) Session(ctx context.Context, org, id string) (store.Session, error) {
	v, err := one(ctx, s.db.Read, scanSession, selectSessions+` where id = $1 and org_id = $2`, id, org)
	return v, s.Wrap("reading a session", err)
}

// Sessions lists sessions, newest first.
func (s *Store) Sessions(ctx context.Context, org string, r store.Range) ([]store.Session, error) {
	page := newQuery(selectSessions).and("org_id = ?", org).page(r)
	list, err := all(ctx, s.db.Read, scanSession, page.text.String(), page.args...)
	return list, s.Wrap("listing sessions", err)
}

// enterSession opens the session of a run, or makes the run the last of the
// session that it joins, whose row it locks.
func enterSession(n store.NewRun) Step {
	if n.OpenSession {
		return stepOne(store.ErrExists, `insert into sessions (id, org_id, agent_id, agent_name, last_run_id, created_at, updated_at)
			values ($1, $2, $3, $4, $5, $6, $6) on conflict do nothing`,
			n.SessionID, n.OrgID, n.AgentID, n.AgentName, n.ID, micros(n.CreatedAt))
	}
	return stepOne(store.ErrNotFound, `update sessions set last_run_id = $3, updated_at = case when updated_at > $4 then updated_at else $4 end
		where id = $1 and org_id = $2`, n.SessionID, n.OrgID, n.ID, micros(n.CreatedAt))
}

// passTurn makes the oldest unfinished run of a session ready, unless another
// has the turn, and tells which when it did. The caller holds the session.
func passTurn(session string, next *string, passed *bool) Step {
	return into(next, passed, value[string], `update runs set ready = 1
		where ready = 0 and status = 'pending' and id = (
			select id from runs where session_id = $1 and status in ('pending', 'running') order by created_at, id limit 1)
		and not exists (
			select 1 from runs o where o.session_id = $1 and o.status in ('pending', 'running') and o.ready = 1)
		returning id`, session)
}

const selectCheckpoints = `select id, org_id, run_id, session_id, agent_id, agent_name, agent_version_id, artifact_name, artifact_version,
	volumes, variables, secret_names, home_digest, workspace_digest, created_at from checkpoints`

func scanCheckpoint(r row) (c store.Checkpoint, err error) {
	return c, r.Scan(&c.ID, &c.OrgID, &c.RunID, &c.SessionID, &c.AgentID, &c.AgentName, &c.AgentVersionID, &c.ArtifactName, &c.ArtifactVersion,
		jsonOf{&c.Volumes}, jsonOf{&c.Variables}, jsonOf{&c.SecretNames}, &c.HomeDigest, &c.WorkspaceDigest, timeAt{&c.CreatedAt})
}

// Checkpoint reads a checkpoint.
func (s *Store) Checkpoint(ctx context.Context, org, id string) (store.Checkpoint, error) {
	c, err := one(ctx, s.db.Read, scanCheckpoint, selectCheckpoints+` where id = $1 and org_id = $2`, id, org)
	return c, s.Wrap("reading a checkpoint", err)
}

// insertCheckpoint stores a checkpoint, pins the versions that it names, and
// makes it the session's newest unless a later run has left one.
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
	for _, version := range slices.Compact(pins) {
		if _, err := exec(ctx, q, `insert into pins (org_id, version_id) values ($1, $2) on conflict do nothing`, c.OrgID, version); err != nil {
			return err
		}
	}
	_, err = exec(ctx, q, `update sessions set checkpoint_id = $2 where id = $1 and not exists (
		select 1 from runs r join runs later on later.session_id = r.session_id and (later.created_at, later.id) > (r.created_at, r.id)
		where r.id = $3 and later.checkpoint_id is not null)`, c.SessionID, c.ID, c.RunID)
	return err
}
