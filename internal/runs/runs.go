// Package runs answers: what may happen to a run?
//
// It creates runs, resolving and freezing what they will use, reads them and
// cancels them. Executing them is the engine's.
package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
)

// Config is what a Service is made of; all members but MaxDepth are required.
type Config struct {
	Store    store.Store
	Dispatch *dispatch.Local
	Bus      notify.Bus
	Sealer   *sealing.Sealer
	IDs      *stint.IDs
	Now      func() time.Time
	// MaxDepth is how many runs may start one another below one that a user
	// started; 0: agents start none.
	MaxDepth int
}

// Service is the use cases of runs, sessions and checkpoints. It is safe for
// concurrent use.
type Service struct {
	c           Config
	definitions *definitions
}

// New makes the service.
func New(c Config) *Service { return &Service{c: c, definitions: newDefinitions()} }

// Get reads a run.
func (s *Service) Get(ctx context.Context, c auth.Caller, id string) (stint.Run, error) {
	if !stint.IsID(stint.PrefixRun, id) {
		return stint.Run{}, stint.NotFound("run", id)
	}
	r, err := s.c.Store.Run(ctx, c.OrgID, id)
	if err != nil {
		return stint.Run{}, notFound(err, "run", id)
	}
	return r.Run, nil
}

// List reads a page of runs, newest first.
func (s *Service) List(ctx context.Context, c auth.Caller, f store.RunFilter, r store.Range) ([]stint.RunSummary, error) {
	page, err := s.c.Store.RunSummaries(ctx, c.OrgID, f, r)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// Cancel ends a pending or running run. The answer is final: whoever reads the
// run from now on sees it cancelled; its worker obeys after.
func (s *Service) Cancel(ctx context.Context, c auth.Caller, id string) (stint.Run, error) {
	if !stint.IsID(stint.PrefixRun, id) {
		return stint.Run{}, stint.NotFound("run", id)
	}
	ctx, done := dispatch.CommitContext(ctx)
	defer done()
	r, err := s.c.Store.Cancel(ctx, c.OrgID, id, stint.TimeOf(s.c.Now()))
	if state, ok := errors.AsType[*store.StateError](err); ok {
		return stint.Run{}, stint.InvalidState("The run '%s' is %s and cannot be cancelled. Only pending and running runs can.", id, state.Status)
	}
	if err != nil {
		return stint.Run{}, notFound(err, "run", id)
	}
	s.c.Dispatch.Ended(id)
	return r.Run, nil
}

// Wait reads the run once it is final, or after d as it then stands.
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

// Metrics reads the samples of a run and their summary.
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

// Session reads a session.
func (s *Service) Session(ctx context.Context, c auth.Caller, id string) (stint.Session, error) {
	session, err := s.session(ctx, c.OrgID, id)
	return session.Session, err
}

func (s *Service) session(ctx context.Context, org, id string) (store.Session, error) {
	if !stint.IsID(stint.PrefixSession, id) {
		return store.Session{}, stint.NotFound("session", id)
	}
	session, err := s.c.Store.Session(ctx, org, id)
	return session, notFound(err, "session", id)
}

// Sessions reads a page of sessions, newest first.
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

// Checkpoint reads a checkpoint.
func (s *Service) Checkpoint(ctx context.Context, c auth.Caller, id string) (stint.Checkpoint, error) {
	checkpoint, err := s.checkpoint(ctx, c.OrgID, id)
	return checkpoint.Checkpoint, err
}

func (s *Service) checkpoint(ctx context.Context, org, id string) (store.Checkpoint, error) {
	if !stint.IsID(stint.PrefixCheckpoint, id) {
		return store.Checkpoint{}, stint.NotFound("checkpoint", id)
	}
	checkpoint, err := s.c.Store.Checkpoint(ctx, org, id)
	return checkpoint, notFound(err, "checkpoint", id)
}

// notFound turns the store's word for a missing row into the public error.
func notFound(err error, noun, asked string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return stint.NotFound(noun, asked)
	}
	return fmt.Errorf("read %s %s: %w", noun, asked, err)
}
