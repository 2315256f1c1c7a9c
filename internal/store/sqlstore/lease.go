package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Register adds an incarnation of a worker.
func (s *Store) Register(ctx context.Context, w store.Worker, ttl time.Duration) error {
	return s.writeOne(ctx, "registering a worker", store.ErrExists, `insert into workers (id, host, capacity, created_at, lease_until)
		values ($1, $2, $3, $4, `+s.d.Now+` + $5) on conflict do nothing`, w.ID, w.Host, w.Capacity, micros(w.CreatedAt), ttl.Microseconds())
}

// Renew extends a lease and returns the held runs that the worker no longer owns.
// If the worker never received the claim of a run, or no longer holds a cancelled
// run, the run is taken away.
func (s *Store) Renew(ctx context.Context, id string, holds []string, ttl time.Duration) ([]string, error) {
	return change(ctx, s, "renewing a lease", func(ctx context.Context, q Querier) ([]string, error) {
		var mine, late, leaving []string
		err := run(ctx, q,
			stepOne(store.ErrLeaseLost, `update workers set lease_until = `+s.d.Now+` + $2
				where id = $1 and lease_until > `+s.d.Now, id, ttl.Microseconds()),
			collect(&mine, value[string], `select id from runs where worker_id = $1 and status = 'running' order by id`, id),
			collect(&late, value[string], `select id from runs where worker_id = $1 and status = 'running' and claimed_at < `+s.d.Now+` - $2
				order by id`, id, ttl.Microseconds()),
			collect(&leaving, value[string], `select r.id from leaving l join runs r on r.id = l.run_id
				where l.worker_id = $1 and r.claimed_at < `+s.d.Now+` - $2 order by r.id`, id, ttl.Microseconds()))
		if err != nil {
			return nil, err
		}
		return without(holds, mine), run(ctx, q, s.takeAway(id, without(late, holds), without(leaving, holds))...)
	})
}

// takeAway removes the worker from its running runs (ids) and cancelled runs (leaving),
// so that the next Reap handles them.
func (s *Store) takeAway(worker string, ids, leaving []string) []Step {
	var steps []Step
	for _, id := range leaving {
		steps = append(steps, step(`update leaving set worker_id = '' where run_id = $1`, id))
	}
	for _, id := range ids {
		steps = append(steps, step(`update runs set worker_id = '' where id = $1 and worker_id = $2 and status = 'running'`, id, worker))
	}
	return steps
}

// without returns the elements of list that are not in others.
func without(list, others []string) []string {
	known := make(map[string]bool, len(others))
	for _, id := range others {
		known[id] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return known[id] })
}

// EndWorker ends a lease.
func (s *Store) EndWorker(ctx context.Context, id string) error {
	return s.endLeases(ctx, `id = $1`, id)
}

// RunningOnHost returns the running runs of a host.
func (s *Store) RunningOnHost(ctx context.Context, host string) ([]string, error) {
	ids, err := all(ctx, s.db.Read, value[string], `select r.id from workers w join runs r on r.worker_id = w.id
		where w.host = $1 and r.status = 'running' order by r.id`, host)
	return ids, s.Wrap("finding the runs of a host", err)
}

// EndWorkersOnHost ends the leases of all incarnations on a host.
func (s *Store) EndWorkersOnHost(ctx context.Context, host string) error {
	return s.endLeases(ctx, `host = $1`, host)
}

func (s *Store) endLeases(ctx context.Context, which, arg string) error {
	return s.write(ctx, "ending leases", func(ctx context.Context, q Querier) error {
		_, err := exec(ctx, q, `update workers set lease_until = 0 where lease_until <> 0 and `+which, arg)
		return err
	})
}

// orphaned is the condition that the run r is running but its worker has no lease.
const orphaned = `r.status = 'running' and not exists (select 1 from workers w where w.id = r.worker_id and w.lease_until <> 0)`

// Reap ends expired leases, and then ends or requeues the runs of workers without a
// lease. A lease is ended before its runs are read, so that a clock that moves
// backwards cannot make the lease valid again in between.
func (s *Store) Reap(ctx context.Context, at stint.Time, n int) ([]string, error) {
	if err := s.endExpired(ctx); err != nil {
		return nil, err
	}
	ids, err := all(ctx, s.db.Read, value[string], `select r.id from runs r where `+orphaned+` order by r.id limit $1`, n)
	if err != nil {
		return nil, s.Wrap("finding lost runs", err)
	}
	lost, err := s.each(ctx, ids, "reaping a run", func(ctx context.Context, q Querier, id string) (bool, error) {
		return s.reap(ctx, q, id, at)
	})
	if err == nil {
		err = s.releaseAbandoned(ctx)
	}
	if err == nil {
		err = s.removeWorkers(ctx)
	}
	return lost, err
}

// endExpired ends expired leases. It reads first, so that an idle server does not
// write.
func (s *Store) endExpired(ctx context.Context) error {
	ids, err := all(ctx, s.db.Read, value[string], `select id from workers where lease_until > 0 and lease_until <= `+s.d.Now+` order by id`)
	if err != nil {
		return s.Wrap("finding expired leases", err)
	}
	for _, id := range ids {
		if err := s.endLeases(ctx, `lease_until <= `+s.d.Now+` and id = $1`, id); err != nil {
			return err
		}
	}
	return nil
}

// removeWorkers removes the workers that have neither a lease nor running runs.
func (s *Store) removeWorkers(ctx context.Context) error {
	const idle = `lease_until = 0 and not exists (select 1 from runs where worker_id = workers.id and status = 'running')`
	ids, err := all(ctx, s.db.Read, value[string], `select id from workers where `+idle+` order by id`)
	if err != nil {
		return s.Wrap("finding idle workers", err)
	}
	return s.eachKey(ctx, "removing workers", ids, func(id string) Step {
		return step(`delete from workers where id = $1 and `+idle, id)
	})
}

// reap ends or requeues one run if it is still orphaned.
func (s *Store) reap(ctx context.Context, q Querier, id string, at stint.Time) (bool, error) {
	var still bool
	r, err := s.lockRun(ctx, q, id, exists(&still, `select r.id from runs r where r.id = $1 and `+orphaned, id))
	if err != nil || !still {
		return false, err
	}
	const what = "The worker of this run was lost: it did not renew its lease in time."
	if pause, ok := r.Retries.After(stint.ReasonWorkerLost, int(r.Epoch)); ok {
		return true, s.requeue(ctx, q, &r, failure(r, stint.ReasonWorkerLost, what, at), pause, nil)
	}
	return true, s.end(ctx, q, &r, failure(r, stint.ReasonWorkerLost, what+" Start the run again.", at), nil)
}
