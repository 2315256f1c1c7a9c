package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// mount keeps the versions that a new run mounts from being removed until it
// has ended and left; store.ErrNotFound when one is gone. It locks their volumes, as who
// removes versions does: one comes first and the other sees it. Of a deleted
// volume, or another than has the name now, a checkpoint names the version.
func (s *Store) mount(n store.NewRun) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(n.Volumes)) {
		if s.d.Share != "" {
			steps = append(steps, Step{
				Query: `select l.id from trees l where l.org_id = $1 and l.kind = $2 and l.name = $3 and l.deleted_at is null` + s.d.Share,
				Args:  []any{n.OrgID, string(stint.Volumes), name},
				Row:   func(Row) error { return nil },
			})
		}
		steps = append(steps, stepOne(store.ErrNotFound, `insert into mounts (org_id, version_id, run_id) select $1, $2, $3
			where exists (select 1 from trees t join tree_versions v on v.tree_id = t.id and v.id = $2
					where t.org_id = $1 and t.kind = $4 and t.name = $5 and t.deleted_at is null)
				or exists (select 1 from pins where org_id = $1 and version_id = $2)`,
			n.OrgID, n.Volumes[name], n.ID, string(stint.Volumes), name))
	}
	return steps
}

// letGo is what the end of a run does with what it mounts. A worker whose run is
// cancelled has yet to keep its state, which names the same versions.
func letGo(r *store.Run, cancelled bool) []Step {
	if cancelled {
		return []Step{step(`insert into leaving (run_id, worker_id) values ($1, $2)`, r.ID, r.WorkerID)}
	}
	return unmount(r)
}

// unmount lets the versions go that a run mounted.
func unmount(r *store.Run) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(r.Volumes)) {
		steps = append(steps, step(`delete from mounts where org_id = $1 and version_id = $2 and run_id = $3`, r.OrgID, r.Volumes[name], r.ID))
	}
	return steps
}

// leaving sees to it that a run that has ended mounts what it did, also where it
// was let go; store.ErrNotFound when some of that is gone.
func (s *Store) leaving(ctx context.Context, q Querier, r *store.Run) error {
	_, err := one(ctx, q, value[string], `select run_id from leaving where run_id = $1`, r.ID)
	if errors.Is(err, store.ErrNotFound) {
		return run(ctx, q, s.mount(store.NewRun{Run: *r})...)
	}
	return err
}

// left ends the leaving of a run: its state is kept, or nobody will.
func left(r *store.Run) []Step {
	return append(unmount(r), step(`delete from leaving where run_id = $1`, r.ID))
}

// letLeave ends the leaving of the runs whose worker is none any more, or has
// let them go.
func (s *Store) letLeave(ctx context.Context) error {
	const nobodys = `not exists (select 1 from workers w where w.id = l.worker_id and w.lease_until <> 0)`
	ids, err := all(ctx, s.db.Read, value[string], `select l.run_id from leaving l where `+nobodys+` order by l.run_id`)
	if err != nil {
		return s.Wrap("looking for runs that nobody leaves", err)
	}
	_, err = s.each(ctx, ids, "letting a cancelled run go", func(ctx context.Context, q Querier, id string) (bool, error) {
		r, err := s.lockRun(ctx, q, id)
		if err != nil {
			return false, err
		}
		return true, run(ctx, q, left(&r)...)
	})
	return err
}
