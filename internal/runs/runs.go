// Package runs creates, reads, and cancels runs. The creation of a run freezes its
// plan: it resolves the versions of everything that the run uses. Package worker
// executes runs.
package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/lru"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/store"
)

// Config contains the dependencies of a Service. All members except MaxDepth and
// Healthy are required.
type Config struct {
	Store    Store
	Dispatch Dispatcher
	Bus      notify.Bus
	Sealer   Sealer
	IDs      *stint.IDs
	Now      func() time.Time
	// MaxDepth is the maximum number of levels of runs below a run that a user
	// started. If it is 0, agents cannot start runs.
	MaxDepth int
	// Healthy returns nil, or the reason why this server's worker takes no runs. It can be
	// nil.
	Healthy func() error
}

// Store is the part of store.Store that a Service needs.
type Store interface {
	Agent(ctx context.Context, org, id string) (store.Agent, error)
	AgentByName(ctx context.Context, org, name string) (store.Agent, error)
	AgentVersion(ctx context.Context, org, agent, id string, number int64) (store.AgentVersion, error)
	FileSetByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (store.FileSet, error)
	FileSetVersion(ctx context.Context, org, fileSet, id string, number int64) (store.FileSetVersion, error)
	FileSetVersions(ctx context.Context, org, fileSet string, r store.Range) ([]store.FileSetVersion, error)
	RunState(ctx context.Context, id string) (stint.Status, int64, error)
	Secrets(ctx context.Context, org string) ([]store.Secret, error)
	Metrics(ctx context.Context, runID string) ([]stint.MetricsSample, error)
	Activity(ctx context.Context, org string, limit int) (stint.Activity, error)

	CreateRun(ctx context.Context, n store.NewRun, c *store.ClaimRequest) ([]store.Claim, error)
	Run(ctx context.Context, org, id string) (store.Run, error)
	RunSummaries(ctx context.Context, org string, f store.RunFilter, r store.Range) ([]stint.RunSummary, error)
	Cancel(ctx context.Context, org, id string, at stint.Time) (store.Run, error)
	QueuedRun(ctx context.Context, org, id string) (store.QueuedRun, error)
	QueuedRuns(ctx context.Context, org string, limit int) ([]store.QueuedRun, error)
	QueueState(ctx context.Context, org string) (store.QueueState, error)
	Metadata(ctx context.Context, org, id string) (map[string]string, error)
	ChangeMetadata(ctx context.Context, org, id string, change map[string]*string) (store.Run, error)
	Session(ctx context.Context, org, id string) (store.Session, error)
	Sessions(ctx context.Context, org string, r store.Range) ([]store.Session, error)
	Checkpoint(ctx context.Context, org, id string) (store.Checkpoint, error)
}

// Dispatcher is the part of the dispatcher that a Service needs.
type Dispatcher interface {
	// TakeIdle returns the claim request of an idle worker, so that the
	// transaction that creates a run can claim runs for this worker. The caller
	// must call deliver once with the claims. Both results are nil if no worker
	// is idle.
	TakeIdle() (claimer *store.ClaimRequest, deliver func([]store.Claim))
	// NotifyCreated counts a new run and wakes its readers, and workers if no worker has
	// claimed it.
	NotifyCreated(runID string, unclaimed bool)
	// Limits returns the maximum number of running runs of an organisation and of an
	// agent; 0 is unlimited.
	Limits() (perOrg, perAgent int)
	// IsHeld reports whether the runs of a session wait until the state of their
	// predecessor is stored.
	IsHeld(sessionID string) bool
	// NotifyEnded wakes the readers and the worker of a run that ended, and workers
	// that wait for runs.
	NotifyEnded(runID string)
	// CountEnded adds a run that has ended to the metrics.
	CountEnded(r *stint.Run)
}

// Sealer encrypts the secrets of a run.
type Sealer interface {
	Seal(plain, owner []byte) ([]byte, error)
}

// Service implements the use cases of runs, sessions, and checkpoints. It is
// safe for concurrent use.
type Service struct {
	c           Config
	definitions *lru.Cache[string, *stint.Definition] // by version
}

// maxDefinitions is the maximum number of cached definitions.
const maxDefinitions = 1024

// New returns a Service.
func New(c Config) *Service {
	return &Service{c: c, definitions: lru.New[string, *stint.Definition](maxDefinitions)}
}

// Get returns a run of the caller's organisation.
func (s *Service) Get(ctx context.Context, c auth.Caller, id string) (stint.Run, error) {
	r, err := store.Lookup(ctx, s.c.Store.Run, stint.PrefixRun, c.OrgID, id)
	return r.Run, err
}

// List returns a page of runs, newest first.
func (s *Service) List(ctx context.Context, c auth.Caller, f store.RunFilter, r store.Range) ([]stint.RunSummary, error) {
	page, err := s.c.Store.RunSummaries(ctx, c.OrgID, f, r)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// Cancel cancels a pending or running run and returns it. For a run that has ended,
// it returns an error. After Cancel, every reader sees the run as cancelled, but its
// agent may still execute until the worker stops it.
func (s *Service) Cancel(ctx context.Context, c auth.Caller, id string) (stint.Run, error) {
	ctx, done := store.CommitContext(ctx)
	defer done()
	r, err := store.Lookup(ctx, func(ctx context.Context, org, id string) (store.Run, error) {
		return s.c.Store.Cancel(ctx, org, id, stint.TimeOf(s.c.Now()))
	}, stint.PrefixRun, c.OrgID, id)
	if state, ok := errors.AsType[*store.StateError](err); ok {
		return stint.Run{}, stint.InvalidState("The run '%s' is %s and cannot be cancelled. Only pending and running runs can.", id, state.Status)
	}
	if err != nil {
		return stint.Run{}, err
	}
	s.c.Dispatch.NotifyEnded(id)
	s.c.Dispatch.CountEnded(&r.Run)
	return r.Run, nil
}

// Metadata returns the metadata of a run, which may be nil.
func (s *Service) Metadata(ctx context.Context, c auth.Caller, id string) (map[string]string, error) {
	return store.Lookup(ctx, s.c.Store.Metadata, stint.PrefixRun, c.OrgID, id)
}

// ChangeMetadata sets the members of change in the metadata of a run, also of an ended
// one, and returns the run. A nil value removes a member.
func (s *Service) ChangeMetadata(ctx context.Context, c auth.Caller, id string, change map[string]*string) (stint.Run, error) {
	set := map[string]string{}
	for key, value := range change {
		if value != nil {
			set[key] = *value
		}
	}
	if err := definition.CheckMetadata(set); err != nil {
		return stint.Run{}, err
	}
	if len(change) == 0 {
		return s.Get(ctx, c, id)
	}
	ctx, done := store.CommitContext(ctx)
	defer done()
	r, err := store.Lookup(ctx, func(ctx context.Context, org, id string) (store.Run, error) {
		return s.c.Store.ChangeMetadata(ctx, org, id, change)
	}, stint.PrefixRun, c.OrgID, id)
	return r.Run, err
}

// Wait waits until the run has ended, at most for d, and returns its current state.
func (s *Service) Wait(ctx context.Context, c auth.Caller, id string, d time.Duration) (stint.Run, error) {
	wake, cancel := s.c.Bus.Subscribe(notify.TopicStop(id))
	defer cancel()
	limit := time.NewTimer(d)
	defer limit.Stop()
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		r, err := s.Get(ctx, c, id)
		if err != nil || r.Status.Final() {
			return r, err
		}
		select {
		case <-wake:
		case <-poll.C:
		case <-limit.C:
			return s.Get(ctx, c, id)
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// Metrics returns the samples of a run and their summary.
func (s *Service) Metrics(ctx context.Context, c auth.Caller, id string) (stint.Metrics, error) {
	r, err := s.Get(ctx, c, id)
	if err != nil {
		return stint.Metrics{}, err
	}
	samples, err := s.c.Store.Metrics(ctx, id)
	if err != nil {
		return stint.Metrics{}, fmt.Errorf("read metrics of %s: %w", id, err)
	}
	if samples == nil {
		samples = []stint.MetricsSample{}
	}
	return stint.Metrics{Data: samples, Summary: stint.Summarize(samples, r.ExecutionTimeMs)}, nil
}

// Activity returns the running and pending runs of the caller's organisation, at most
// limit.
func (s *Service) Activity(ctx context.Context, c auth.Caller, limit int) (stint.Activity, error) {
	at := stint.TimeOf(s.c.Now())
	a, err := s.c.Store.Activity(ctx, c.OrgID, limit)
	if err != nil {
		return stint.Activity{}, fmt.Errorf("read active runs: %w", err)
	}
	a.At = at
	if a.Data == nil {
		a.Data = []stint.ActiveRun{}
	}
	return a, s.addQueues(ctx, c.OrgID, &a)
}

// Session returns a session.
func (s *Service) Session(ctx context.Context, c auth.Caller, id string) (stint.Session, error) {
	session, err := store.Lookup(ctx, s.c.Store.Session, stint.PrefixSession, c.OrgID, id)
	return session.Session, err
}

// Sessions returns a page of sessions, newest first.
func (s *Service) Sessions(ctx context.Context, c auth.Caller, r store.Range) ([]stint.Session, error) {
	rows, err := s.c.Store.Sessions(ctx, c.OrgID, r)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	page := make([]stint.Session, len(rows))
	for i := range rows {
		page[i] = rows[i].Session
	}
	return page, nil
}

// Checkpoint returns a checkpoint.
func (s *Service) Checkpoint(ctx context.Context, c auth.Caller, id string) (stint.Checkpoint, error) {
	checkpoint, err := store.Lookup(ctx, s.c.Store.Checkpoint, stint.PrefixCheckpoint, c.OrgID, id)
	return checkpoint.Checkpoint, err
}
