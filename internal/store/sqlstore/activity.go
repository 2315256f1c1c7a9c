package sqlstore

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint"
)

// The statements of Activity. A run's newest sample is found with one look-up in the
// primary key of metrics.
const (
	selectActive = `select l.id, l.agent_id, l.agent_name, l.status, substr(p.prompt, 1, $3), l.created_at, l.started_at, l.completed_at,
			l.session_id, l.priority, l.epoch, l.worker_id, l.isolation, l.usage, m.at, m.cpu, m.mem_used, m.mem_total, m.disk_used, m.disk_total
		from l join run_specs p on p.run_id = l.id
			left join metrics m on l.status = 'running' and m.run_id = l.id and m.at = (select max(at) from metrics where run_id = l.id)`

	activeColumns = `id, agent_id, agent_name, status, created_at, started_at, completed_at, session_id, priority, epoch, worker_id, isolation, usage`

	selectRunning = `with l as (
			select ` + activeColumns + ` from runs where org_id = $1 and status = 'running' order by created_at, id limit $2) ` +
		selectActive + ` order by l.created_at, l.id`

	// Sorts a bounded number of the oldest runs.
	selectPending = `with oldest as (
			select id, priority, created_at from runs where org_id = $1 and status = 'pending' order by created_at, id limit $4),
		l as (
			select ` + activeColumns + ` from runs where id in (select id from oldest order by priority desc, created_at, id limit $2)) ` +
		selectActive + ` order by l.priority desc, l.created_at, l.id`

	countOpen = `select count(*) from (select 1 from runs where org_id = $1 and status = $2 limit $3) o`
)

// Activity returns the running and pending runs of an organisation, at most limit.
func (s *Store) Activity(ctx context.Context, org string, limit int) (a stint.Activity, err error) {
	const doing = "reading active runs"
	for status, count := range map[stint.Status]*int{stint.Running: &a.Running, stint.Pending: &a.Pending} {
		if *count, err = one(ctx, s.db.Read, value[int], countOpen, org, string(status), stint.MaxPendingCount); err != nil {
			return a, s.Wrap(doing, err)
		}
	}
	prompt := 2 * stint.MaxActivityPrompt // an escaped character is stored as two
	a.Data, err = list(ctx, s, doing, scanActive, selectRunning, org, limit, prompt)
	if limit -= len(a.Data); err != nil || limit <= 0 || a.Pending == 0 {
		return a, err
	}
	pending, err := list(ctx, s, doing, scanActive, selectPending, org, limit, prompt, stint.MaxPendingCount)
	a.Data = append(a.Data, pending...)
	return a, err
}

func scanActive(r Row) (v stint.ActiveRun, err error) {
	var worker string
	var at *int64
	var cpu *float64
	var memUsed, memTotal, diskUsed, diskTotal *int64
	err = r.Scan(&v.ID, &v.AgentID, &v.AgentName, &v.Status, freeText{&v.Prompt}, timeAt{&v.CreatedAt}, timeOr{&v.StartedAt}, timeOr{&v.CompletedAt},
		&v.SessionID, &v.Priority, &v.Attempt, &worker, &v.Isolation, jsonOf{&v.Usage}, &at, &cpu, &memUsed, &memTotal, &diskUsed, &diskTotal)
	if err != nil {
		return v, fmt.Errorf("scan an active run: %w", err)
	}
	if v.Status == stint.Running {
		v.WorkerID = &worker
	}
	if prompt := []rune(v.Prompt); len(prompt) > stint.MaxActivityPrompt {
		v.Prompt = string(prompt[:stint.MaxActivityPrompt])
	}
	if at != nil {
		v.Metrics = &stint.MetricsSample{
			Timestamp: stint.TimeOfMicros(*at), CPUPercent: *cpu, MemoryUsedMb: *memUsed, MemoryTotalMb: *memTotal, DiskUsedMb: *diskUsed, DiskTotalMb: *diskTotal,
		}
	}
	return v, nil
}
