package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// selectRuns selects from runs as l and run_specs as p.
const selectRuns = `select l.id, l.org_id, l.agent_id, l.agent_name, l.agent_version_id, l.session_id, l.status, l.priority, l.epoch,
		l.worker_id, l.timeout_us, l.created_at, l.started_at, l.attempt_started_at, l.retry_at, l.completed_at, l.execution_ms, l.spent_ms,
		l.isolation, l.image_digest, l.reason, l.status_message, l.exit_code,
		l.checkpoint_id, l.artifact_name, l.artifact_version, l.parent_run_id, l.trace_id, l.volumes, l.metadata, l.usage, l.result, l.error, l.head_moved_from, l.created_by,
		p.prompt, p.spec, p.sealed, p.retries
	from runs l join run_specs p on p.run_id = l.id`

func scanRun(r Row) (v store.Run, err error) {
	var timeout int64
	err = r.Scan(&v.ID, &v.OrgID, &v.AgentID, &v.AgentName, &v.AgentVersionID, &v.SessionID, &v.Status, &v.Priority, &v.Epoch,
		&v.WorkerID, &timeout, timeAt{&v.CreatedAt}, timeOr{&v.StartedAt}, timeOr{&v.AttemptStartedAt}, timeOr{&v.RetryAt}, timeOr{&v.CompletedAt}, &v.ExecutionTimeMs, &v.SpentMs,
		&v.Isolation, &v.ImageDigest, &v.StatusReason, freeOr{&v.StatusMessage}, &v.ExitCode,
		&v.CheckpointID, &v.ArtifactName, &v.ArtifactVersion, freeOr{&v.ParentRunID}, freeOr{&v.TraceID}, jsonOf{&v.Volumes}, jsonOf{&v.Metadata}, jsonOf{&v.Usage}, jsonOf{&v.Result}, freeOr{&v.Error}, jsonOf{&v.HeadMovedFrom}, freeOr{&v.CreatedBy},
		freeText{&v.Prompt}, jsonOf{&v.Spec}, &v.Sealed, jsonOf{&v.Retries})
	v.Timeout = time.Duration(timeout) * time.Microsecond
	if v.AttemptStartedAt == nil && v.RetryAt == nil {
		v.AttemptStartedAt = v.StartedAt // stored by an earlier release
	}
	v.Attempt = int(v.Epoch)
	describeAttempt(&v)
	return v, err
}

// insertRun returns steps that store the rows of a pending run. The run is ready unless
// its session has an unfinished run. The transaction must have locked the session.
func insertRun(n store.NewRun) []Step {
	return []Step{
		stepOne(store.ErrExists, `insert into runs
				(id, org_id, agent_id, agent_name, agent_version_id, session_id, status, ready, priority, epoch, worker_id, timeout_us, max_retries, created_at,
				artifact_name, artifact_version, parent_run_id, trace_id, volumes, metadata, inherits, placement, created_by)
			select $1, $2, $3, $4, $5, $6, 'pending',
				case when exists (select 1 from runs where session_id = $6 and status in ('pending', 'running')) then 0 else 1 end,
				$7, 0, '', $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
			where true
			on conflict do nothing`,
			n.ID, n.OrgID, n.AgentID, n.AgentName, n.AgentVersionID, n.SessionID, n.Priority, n.Timeout.Microseconds(), maxRetries(n), micros(n.CreatedAt),
			textOrNil(n.ArtifactName), textOrNil(n.ArtifactVersion), textOrNil(n.ParentRunID), textOrNil(n.TraceID), asJSON(n.Volumes), asJSON(n.Metadata), emptyOrNil(n.Inherits), placementOrNil(n.Placement), textOrNil(n.CreatedBy)),
		step(`insert into run_specs (run_id, prompt, spec, sealed, retries) values ($1, $2, $3, $4, $5)`, n.ID, n.Prompt, raw(n.Spec), n.Sealed, asJSON(n.Retries)),
	}
}

// Run returns a run.
func (s *Store) Run(ctx context.Context, org, id string) (store.Run, error) {
	r, err := get(ctx, s, "reading a run", scanRun, selectRuns+` where l.id = $1 and l.org_id = $2`, id, org)
	if err != nil {
		return r, err
	}
	return r, s.Wrap("reading the attempts of a run", readAttempts(ctx, s.db.Read, &r))
}

// RunState returns the status and the epoch of a run of any organisation.
func (s *Store) RunState(ctx context.Context, id string) (status stint.Status, epoch int64, err error) {
	err = queryRow(ctx, s.db.Read, `select status, epoch from runs where id = $1`, id).Scan(&status, &epoch)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return status, epoch, s.Wrap("reading a run's state", err)
}

// RunSummaries returns runs, newest first. The page is selected from the table
// runs alone; the prompt is then joined for the rows of the page. Each status has its
// own page, which an index contains in order; the page of all is selected from these.
func (s *Store) RunSummaries(ctx context.Context, org string, f store.RunFilter, r store.Range) ([]stint.RunSummary, error) {
	q := new(query)
	q.text.WriteString("with l as (select * from (")
	for i := range max(1, len(f.Statuses)) {
		if i > 0 {
			q.text.WriteString(" union all ")
		}
		q.text.WriteString("select * from (select * from runs where true")
		q.of(org, r)
		if len(f.Statuses) > 0 {
			q.and("status = ?", string(f.Statuses[i]))
		}
		s.filterRuns(q, f)
		q.page(r)
		q.text.WriteString(") s" + strconv.Itoa(i))
	}
	q.text.WriteString(") m order by created_at desc, id desc limit $" + strconv.Itoa(len(q.args)))
	return list(ctx, s, "listing runs", scanSummary, q.text.String()+`)
		select l.id, l.agent_id, l.agent_name, l.status, p.prompt, l.created_at, l.started_at, l.completed_at
		from l join run_specs p on p.run_id = l.id order by l.created_at desc, l.id desc`, q.args...)
}

// filterRuns adds the conditions of a filter on runs, other than that on the status.
func (s *Store) filterRuns(q *query, f store.RunFilter) {
	if f.AgentID != "" {
		q.and("agent_id = ?", f.AgentID)
	}
	if f.SessionID != "" {
		q.and("session_id = ?", f.SessionID)
	}
	if f.CreatedBy != "" {
		q.and("created_by = ?", f.CreatedBy)
	}
	if f.Since != nil {
		q.and("created_at >= ?", micros(*f.Since))
	}
	if f.Until != nil {
		q.and("created_at <= ?", micros(*f.Until))
	}
	s.filterMetadata(q, f.Metadata)
}

func scanSummary(r Row) (v stint.RunSummary, err error) {
	return v, r.Scan(&v.ID, &v.AgentID, &v.AgentName, &v.Status, freeText{&v.Prompt}, timeAt{&v.CreatedAt}, timeOr{&v.StartedAt}, timeOr{&v.CompletedAt})
}

// lockRun locks a run's session, then the run, and returns the run. It then runs the
// steps in more, in the same round trip. If the run does not exist, the error is
// store.ErrNotFound.
func (s *Store) lockRun(ctx context.Context, q Querier, id string, more ...Step) (r store.Run, err error) {
	var found bool
	steps := []Step{
		lockRows(s.d.Lock, `select l.id from sessions l where l.id = (select session_id from runs where id = $1)`, id),
		into(&r, &found, scanRun, selectRuns+` where l.id = $1`+s.d.Lock, id),
	}
	if err := run(ctx, q, append(steps, more...)...); err != nil {
		return r, err
	}
	if !found {
		return r, store.ErrNotFound
	}
	return r, nil
}
