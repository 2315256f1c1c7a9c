package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// mount returns steps that record the versions which a new run mounts, so that they are
// not removed until the run releases them. If a version no longer exists, the error is
// store.ErrNotFound. Mounting and removal both lock the volume, so the later of the two
// sees the result of the earlier. If a checkpoint references a version, it can be
// mounted even if its volume is deleted or another volume now has the name.
func (s *Store) mount(n store.NewRun) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(n.Volumes)) {
		lock := lockRows(s.d.Share, `select l.id from trees l where l.org_id = $1 and l.kind = $2 and l.name = $3 and l.deleted_at is null`,
			n.OrgID, string(stint.Volumes), name)
		steps = append(steps, lock, stepOne(store.ErrNotFound, `insert into mounts (org_id, version_id, run_id) select $1, $2, $3
			where exists (select 1 from trees t join tree_versions v on v.tree_id = t.id and v.id = $2
					where t.org_id = $1 and t.kind = $4 and t.name = $5 and t.deleted_at is null)
				or exists (select 1 from pins where org_id = $1 and version_id = $2)`,
			n.OrgID, n.Volumes[name], n.ID, string(stint.Volumes), name))
	}
	return steps
}

// release returns steps that release the mounts at the end of a run. If the run was
// cancelled while running, they add the run to the table leaving instead: the worker
// has yet to save the run's state, which references the same versions.
func release(r *store.Run, cancelled bool) []Step {
	if cancelled {
		return []Step{step(`insert into leaving (run_id, worker_id) values ($1, $2)`, r.ID, r.WorkerID)}
	}
	return unmount(r)
}

// unmount returns steps that remove the mounts of a run.
func unmount(r *store.Run) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(r.Volumes)) {
		steps = append(steps, step(`delete from mounts where org_id = $1 and version_id = $2 and run_id = $3`, r.OrgID, r.Volumes[name], r.ID))
	}
	return steps
}

// ensureMounted mounts the versions of an ended run again, unless the run still mounts
// them. If a version no longer exists, the error is store.ErrNotFound.
func (s *Store) ensureMounted(ctx context.Context, q Querier, r *store.Run) error {
	_, err := one(ctx, q, value[string], `select run_id from leaving where run_id = $1`, r.ID)
	if errors.Is(err, store.ErrNotFound) {
		return run(ctx, q, s.mount(store.NewRun{Run: *r})...)
	}
	return err
}

// endLeaving returns steps that release the mounts of an ended run after its state was
// saved, or when its worker will not save the state.
func endLeaving(r *store.Run) []Step {
	return append(unmount(r), step(`delete from leaving where run_id = $1`, r.ID))
}

// releaseAbandoned releases the mounts of cancelled runs if their worker has no lease or
// no longer holds them.
func (s *Store) releaseAbandoned(ctx context.Context) error {
	const abandoned = `not exists (select 1 from workers w where w.id = l.worker_id and w.lease_until <> 0)`
	ids, err := all(ctx, s.db.Read, value[string], `select l.run_id from leaving l where `+abandoned+` order by l.run_id`)
	if err != nil {
		return s.Wrap("finding abandoned runs", err)
	}
	_, err = s.each(ctx, ids, "releasing the mounts of a cancelled run", func(ctx context.Context, q Querier, id string) (bool, error) {
		return true, s.abandon(ctx, q, id)
	})
	return err
}

// abandon releases the mounts of a cancelled run. If its worker has stopped it without
// saving a state, the run adopts that of an earlier attempt. If the worker has lost its
// lease, its next start may still save the state.
func (s *Store) abandon(ctx context.Context, q Querier, id string) error {
	var stopped bool
	r, err := s.lockRun(ctx, q, id, exists(&stopped, `select 1 from leaving where run_id = $1 and worker_id = ''`, id))
	if err != nil {
		return err
	}
	steps := endLeaving(&r)
	if stopped && r.CheckpointID == nil && r.Epoch > 1 {
		if err := s.adoptState(ctx, q, &r); err != nil {
			return err
		}
		steps = append(steps, saveEnd(&r))
	}
	return run(ctx, q, steps...)
}
