package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/store"
)

const selectSessions = `select id, agent_id, agent_name, checkpoint_id, last_run_id, created_at, updated_at, org_id from sessions`

func scanSession(r Row) (v store.Session, err error) {
	return v, r.Scan(&v.ID, &v.AgentID, &v.AgentName, &v.CheckpointID, &v.LastRunID, timeAt{&v.CreatedAt}, timeAt{&v.UpdatedAt}, &v.OrgID)
}

// Session returns a session.
func (s *Store) Session(ctx context.Context, org, id string) (store.Session, error) {
	return get(ctx, s, "reading a session", scanSession, selectSessions+` where id = $1 and org_id = $2`, id, org)
}

// Sessions returns sessions, newest first.
func (s *Store) Sessions(ctx context.Context, org string, r store.Range) ([]store.Session, error) {
	page := newQuery(selectSessions).of(org, r).page(r)
	return list(ctx, s, "listing sessions", scanSession, page.text.String(), page.args...)
}

// enterSession returns a step that creates the session of a run, or that locks the
// existing session and records the run as its last.
func enterSession(n store.NewRun) Step {
	if n.OpenSession {
		return stepOne(store.ErrExists, `insert into sessions (id, org_id, agent_id, agent_name, last_run_id, created_at, updated_at)
			values ($1, $2, $3, $4, $5, $6, $6) on conflict do nothing`,
			n.SessionID, n.OrgID, n.AgentID, n.AgentName, n.ID, micros(n.CreatedAt))
	}
	return stepOne(store.ErrNotFound, `update sessions set last_run_id = $3, updated_at = case when updated_at > $4 then updated_at else $4 end
		where id = $1 and org_id = $2`, n.SessionID, n.OrgID, n.ID, micros(n.CreatedAt))
}

// readyNext returns a step that makes the oldest unfinished run of a session ready,
// unless that run is paused before a retry, or an unfinished run of the session is ready
// already. If it makes a run ready, it sets *next to the run's ID and *found to true. The
// transaction must have locked the session.
func readyNext(session string, next *string, found *bool) Step {
	return into(next, found, value[string], `update runs set ready = 1
		where ready = 0 and status = 'pending' and retry_at is null and id = (
			select id from runs where session_id = $1 and status in ('pending', 'running') order by created_at, id limit 1)
		and not exists (
			select 1 from runs o where o.session_id = $1 and o.status in ('pending', 'running') and o.ready = 1)
		returning id`, session)
}
