package postgres

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// counters avoid contention on the rows of the table load. If the creation or the end
// of a run updated the organisation's row, the row would be locked until the commit,
// and an organisation could start or end only one run at a time. Therefore each of
// them inserts a row into load_changes. A claim, which handles several runs, locks the
// organisation's row and adds the organisation's changes to load, so that it never
// counts fewer runs than are running. Reap adds the changes that no claim has added.
var counters = sqlstore.Counters{
	Add: `insert into load_changes (org_id, agent_id, running, ready)
		select org_id, agent_id, $2, $3 from runs where id = $1 and ready = 1`,

	Of: `select agent_id, sum(running)::bigint as running, sum(ready)::bigint as ready from (
			select agent_id, running, ready from load where org_id = $1
			union all select agent_id, running, ready from load_changes where org_id = $1
			union all select '', running, ready from load_changes where org_id = $1) c
		group by agent_id`,

	// Selects a page of the organisations without changes, in index order, and with
	// the first page all organisations with changes, which are few.
	NextOrgs: `(select l.org_id, l.running, l.served from load l
			where l.agent_id = '' and l.ready > 0 and l.running < $1
				and not exists (select 1 from load_changes c where c.org_id = l.org_id)
			order by l.running, l.served, l.org_id limit $2 offset $3)
		union all
		select c.org_id, coalesce(l.running, 0) + sum(c.running), coalesce(l.served, 0)
			from load_changes c left join load l on l.org_id = c.org_id and l.agent_id = ''
			where $3 = 0
			group by c.org_id, l.running, l.served, l.ready
			having coalesce(l.ready, 0) + sum(c.ready) > 0 and coalesce(l.running, 0) + sum(c.running) < $1`,

	Lock:    ensureRow + ` for update` + returnRow,
	TryLock: ensureRow + ` for update skip locked` + returnRow,

	// The statement itself locks the row, and does nothing if another transaction
	// has locked it.
	ApplyChanges: `with held as (
			select 1 from load where org_id = $1 and agent_id = '' for update skip locked),
		changes as (
			delete from load_changes where org_id = $1 and exists (select 1 from held) returning agent_id, running, ready),
		sums as (
			select agent_id, sum(running) as running, sum(ready) as ready from changes group by agent_id
			union all select '', sum(running), sum(ready) from changes having count(*) > 0)
		insert into load (org_id, agent_id, running, ready, served)
		select $1, agent_id, running, ready, 0 from sums order by agent_id
		on conflict (org_id, agent_id) do update set running = load.running + excluded.running, ready = load.ready + excluded.ready`,

	// Skips locked runs, such as those that are being cancelled. A worker without labels
	// does not decode those of runs.
	Candidates: `select r.id, r.session_id, coalesce(r.inherits, ''), r.epoch from load a cross join lateral (
			select l.id, l.priority, l.created_at, l.session_id, l.inherits, l.epoch from runs l
			where l.agent_id = a.agent_id and l.status = 'pending' and l.ready = 1
				and (l.placement is null or $4::jsonb <> '{}' and l.placement::jsonb <@ $4::jsonb)
			order by l.priority desc, l.created_at, l.id limit least($3, $2 - a.running) for update skip locked) r
		where a.org_id = $1 and a.agent_id <> '' and a.ready > 0 and a.running < $2
		order by r.priority desc, r.created_at, r.id limit $3`,
	MaxBatch: 1000,
}

// ensureRow and returnRow enclose the locking clause of a statement that inserts an
// organisation's row if it does not exist, and locks it.
const (
	ensureRow = `with made as (
			insert into load (org_id, agent_id, running, ready, served) values ($1, '', 0, 0, 0) on conflict do nothing returning org_id),
		locked as (
			select org_id from load where org_id = $1 and agent_id = ''`
	returnRow = `) select org_id from made union all select org_id from locked`
)

// Reap is like sqlstore.Store.Reap and also adds pending changes to the counters.
func (s *Store) Reap(ctx context.Context, at stint.Time, n int) ([]string, error) {
	lost, err := s.Store.Reap(ctx, at, n)
	if err != nil {
		return lost, err
	}
	return lost, s.Wrap("counting runs", s.applyAllChanges(ctx))
}

// applyAllChanges adds the pending changes of all organisations to the counters,
// except of those that another transaction has locked.
func (s *Store) applyAllChanges(ctx context.Context) error {
	var changed bool
	if err := s.db.QueryRowContext(ctx, `select exists (select 1 from load_changes)`).Scan(&changed); err != nil || !changed {
		return err
	}
	return s.write(ctx, func(ctx context.Context, q sqlstore.Querier) error {
		for _, statement := range []string{
			`insert into load (org_id, agent_id, running, ready, served)
				select distinct org_id, '', 0, 0, 0 from load_changes order by org_id on conflict do nothing`,
			`with held as (
					select org_id from load where agent_id = '' and org_id in (select org_id from load_changes) for update skip locked),
				changes as (
					delete from load_changes c using held h where c.org_id = h.org_id returning c.org_id, c.agent_id, c.running, c.ready),
				sums as (
					select org_id, agent_id, sum(running) as running, sum(ready) as ready from changes group by org_id, agent_id
					union all select org_id, '', sum(running), sum(ready) from changes group by org_id)
				insert into load (org_id, agent_id, running, ready, served)
				select org_id, agent_id, running, ready, 0 from sums order by org_id, agent_id
				on conflict (org_id, agent_id) do update set running = load.running + excluded.running, ready = load.ready + excluded.ready`,
		} {
			if _, err := q.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
