package sqlstore

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

const selectAgents = `select id, name, version_id, created_at, updated_at, org_id, unnamed_secrets from agents`

func scanAgent(r Row) (a store.Agent, err error) {
	return a, r.Scan(&a.ID, &a.Name, &a.CurrentVersionID, timeAt{&a.CreatedAt}, timeAt{&a.UpdatedAt}, &a.OrgID, &a.UnnamedSecrets)
}

// CreateAgent stores an agent with its first version.
func (s *Store) CreateAgent(ctx context.Context, a store.Agent, v store.AgentVersion) error {
	v.AgentID, v.VersionNumber = a.ID, 1
	return s.write(ctx, "creating an agent", func(ctx context.Context, q Querier) error {
		err := execOne(ctx, q, store.ErrExists, `insert into agents (id, org_id, name, version_id, created_at, updated_at)
			values ($1, $2, $3, $4, $5, $6) on conflict do nothing`,
			a.ID, a.OrgID, a.Name, v.ID, micros(a.CreatedAt), micros(a.UpdatedAt))
		if err != nil {
			return err
		}
		return insertAgentVersion(ctx, q, a.OrgID, v)
	})
}

func insertAgentVersion(ctx context.Context, q Querier, org string, v store.AgentVersion) error {
	return execOne(ctx, q, store.ErrExists, `insert into agent_versions
			(id, org_id, agent_id, number, digest, definition, created_by, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing`,
		v.ID, org, v.AgentID, v.VersionNumber, v.Digest, string(v.Definition), v.CreatedBy, micros(v.CreatedAt))
}

// AddAgentVersion appends a version and makes it current, unless the current version
// has the same digest.
func (s *Store) AddAgentVersion(ctx context.Context, org string, v store.AgentVersion) (store.AgentVersion, bool, error) {
	type answer struct {
		head  store.AgentVersion
		added bool
	}
	a, err := change(ctx, s, "adding an agent version", func(ctx context.Context, q Querier) (answer, error) {
		v := v
		current, err := one(ctx, q, value[string], `select l.version_id from agents l
			where l.id = $1 and l.org_id = $2 and l.deleted_at is null`+s.d.Lock, v.AgentID, org)
		if err != nil {
			return answer{}, err
		}
		head, err := one(ctx, q, scanAgentVersion, selectAgentVersions+` where id = $1`, current)
		if err != nil || head.Digest == v.Digest {
			return answer{head: head}, err
		}
		newest, err := one(ctx, q, value[int64], `select max(number) from agent_versions where agent_id = $1`, v.AgentID)
		if err != nil {
			return answer{}, err
		}
		v.VersionNumber, v.CreatedAt = newest+1, stint.TimeOf(v.CreatedAt.Time)
		if err := insertAgentVersion(ctx, q, org, v); err != nil {
			return answer{}, err
		}
		_, err = exec(ctx, q, `update agents set version_id = $2, updated_at = $3, unnamed_secrets = 0 where id = $1`, v.AgentID, v.ID, micros(v.CreatedAt))
		return answer{head: v, added: true}, err
	})
	return a.head, a.added, err
}

// Agent returns an agent by its ID.
func (s *Store) Agent(ctx context.Context, org, id string) (store.Agent, error) {
	return get(ctx, s, "reading an agent", scanAgent, selectAgents+` where id = $1 and org_id = $2 and deleted_at is null`, id, org)
}

// AgentByName returns an agent by its name.
func (s *Store) AgentByName(ctx context.Context, org, name string) (store.Agent, error) {
	return get(ctx, s, "finding an agent", scanAgent, selectAgents+` where org_id = $1 and name = $2 and deleted_at is null`, org, name)
}

// Agents returns agents, newest first.
func (s *Store) Agents(ctx context.Context, org string, r store.Range) ([]store.Agent, error) {
	page := newQuery(selectAgents).of(org, r).and("deleted_at is null").page(r)
	return list(ctx, s, "listing agents", scanAgent, page.text.String(), page.args...)
}

const (
	agentVersionColumns = `id, agent_id, number, created_at, digest, created_by`
	selectAgentVersions = `select ` + agentVersionColumns + `, definition from agent_versions`
	listAgentVersions   = `select ` + agentVersionColumns + `, null from agent_versions` // lists do not show the definition
)

func scanAgentVersion(r Row) (v store.AgentVersion, err error) {
	return v, r.Scan(&v.ID, &v.AgentID, &v.VersionNumber, timeAt{&v.CreatedAt}, &v.Digest, &v.CreatedBy, jsonOf{&v.Definition})
}

// AgentVersion returns a version, even of a deleted agent, because its runs and
// checkpoints stay readable.
func (s *Store) AgentVersion(ctx context.Context, org, agent, id string, number int64) (store.AgentVersion, error) {
	q := newQuery(selectAgentVersions).and("agent_id = ?", agent).and("org_id = ?", org)
	if id != "" {
		q.and("id = ?", id)
	} else {
		q.and("number = ?", number)
	}
	return get(ctx, s, "reading an agent version", scanAgentVersion, q.text.String(), q.args...)
}

// AgentVersions returns versions without their definitions, newest first.
func (s *Store) AgentVersions(ctx context.Context, org, agent string, r store.Range) ([]store.AgentVersion, error) {
	page := newQuery(listAgentVersions).and("agent_id = ?", agent).and("org_id = ?", org).page(r)
	return list(ctx, s, "listing agent versions", scanAgentVersion, page.text.String(), page.args...)
}

// DeleteAgent hides an agent.
func (s *Store) DeleteAgent(ctx context.Context, org, id string, at stint.Time) error {
	return s.writeOne(ctx, "deleting an agent", store.ErrNotFound, `update agents set deleted_at = $3
		where id = $1 and org_id = $2 and deleted_at is null`, id, org, micros(at))
}
