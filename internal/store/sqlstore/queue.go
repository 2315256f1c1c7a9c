package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// QueuedRun returns a pending run. The runs ahead are counted, for each agent, in ranges
// of the index runs_claimable.
func (s *Store) QueuedRun(ctx context.Context, org, id string) (store.QueuedRun, error) {
	return get(ctx, s, "reading a queued run", scanQueuedRun, `with a as (`+s.d.Counters.Of+`)
		select r.id, r.agent_id, r.agent_version_id, r.session_id, r.ready, r.retry_at, r.placement,
			case when r.ready = 0 then (
				select b.id from runs b where b.session_id = r.session_id and b.status in ('pending', 'running') order by b.created_at, b.id limit 1) end,
			case when r.ready = 1 then (
				select cast(coalesce(sum((
						select count(*) from runs l where l.agent_id = a.agent_id and l.status = 'pending' and l.ready = 1 and l.priority > r.priority) + (
						select count(*) from runs l where l.agent_id = a.agent_id and l.status = 'pending' and l.ready = 1 and l.priority = r.priority
							and (l.created_at, l.id) < (r.created_at, r.id))), 0) as bigint)
				from a where a.agent_id <> '' and a.ready > 0) else 0 end
		from runs r where r.org_id = $1 and r.id = $2 and r.status = 'pending'`, org, id)
}

// QueuedRuns returns pending runs of an organisation in the order of Activity, at most
// limit, with Ahead relative to the returned runs.
func (s *Store) QueuedRuns(ctx context.Context, org string, limit int) ([]store.QueuedRun, error) {
	queued, err := list(ctx, s, "reading queued runs", scanQueuedRun, `with oldest as (
			select id, priority, created_at from runs where org_id = $1 and status = 'pending' order by created_at, id limit $3)
		select r.id, r.agent_id, r.agent_version_id, r.session_id, r.ready, r.retry_at, r.placement,
			case when r.ready = 0 then (
				select b.id from runs b where b.session_id = r.session_id and b.status in ('pending', 'running') order by b.created_at, b.id limit 1) end, 0
		from runs r where r.id in (select id from oldest order by priority desc, created_at, id limit $2)
		order by r.priority desc, r.created_at, r.id`, org, limit, stint.MaxPendingCount)
	ahead := 0
	for i := range queued {
		if queued[i].Ahead = ahead; queued[i].Ready {
			ahead++
		}
	}
	return queued, err
}

func scanQueuedRun(r Row) (q store.QueuedRun, err error) {
	var before *string
	err = r.Scan(&q.ID, &q.AgentID, &q.AgentVersionID, &q.SessionID, &q.Ready, timeOr{&q.RetryAt}, jsonOf{&q.Placement}, &before, &q.Ahead)
	if before != nil {
		q.Before = *before
	}
	return q, err
}

// QueueState returns the number of running runs of an organisation, and the workers.
func (s *Store) QueueState(ctx context.Context, org string) (store.QueueState, error) {
	const doing = "reading the queue"
	state := store.QueueState{RunningOf: map[string]int{}}
	type load struct {
		agent          string
		running, ready int
	}
	loads := rows(ctx, s.db.Read, func(r Row) (l load, err error) { return l, r.Scan(&l.agent, &l.running, &l.ready) }, s.d.Counters.Of, org)
	for l, err := range loads {
		switch {
		case err != nil:
			return state, s.Wrap(doing, err)
		case l.agent == "":
			state.Running = l.running
		default:
			state.RunningOf[l.agent] = l.running
		}
	}
	var err error
	state.Workers, err = list(ctx, s, doing, scanLiveWorker, `select w.host, w.capacity,
			(select count(*) from runs r where r.worker_id = w.id and r.status = 'running'), h.labels, h.isolations
		from workers w left join hosts h on h.host = w.host where w.lease_until > `+s.d.Now+` order by w.id`)
	return state, err
}

func scanLiveWorker(r Row) (w store.LiveWorker, err error) {
	var labels, isolations *string
	if err := r.Scan(&w.Host, &w.Capacity, &w.Running, &labels, &isolations); err != nil || labels == nil {
		return w, err
	}
	w.Offer = &store.Host{Name: w.Host}
	for text, to := range map[*string]any{labels: &w.Offer.Labels, isolations: &w.Offer.Isolations} {
		if err := json.Unmarshal([]byte(*text), to); err != nil {
			return w, fmt.Errorf("decode host %s: %w", w.Host, err)
		}
	}
	return w, nil
}
