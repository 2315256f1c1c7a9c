// Package dispatch implements the server side of workers: it registers workers,
// assigns runs to them, accepts their output and results, and ends the runs of
// workers with an expired lease.
package dispatch

import (
	"context"
	"maps"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// Dispatcher is the interface of the server to its workers. It is safe for
// concurrent use.
//
// Append, Finish, and AddCheckpoint return within a bounded time. If they return
// an error other than *store.FencedError and store.ErrEpoch, it is unknown whether the
// write was committed. The worker may repeat the call while it owns the run.
type Dispatcher interface {
	// Register adds a worker. The worker's lease expires after the returned time
	// unless Renew extends it.
	Register(ctx context.Context, w store.Worker) (lease time.Duration, err error)
	// Next waits until runs can be assigned and returns at most free assignments.
	// When ctx ends, it returns the runs that are claimed by then or, if there are
	// none, the error of ctx.
	Next(ctx context.Context, workerID string, free int) ([]Assignment, error)
	// Append appends to the journal; see store.Journal.
	Append(ctx context.Context, at store.Position, b store.Batch) (head int64, err error)
	// Sample stores metrics of a run. If place is not nil, it also records where the
	// attempt executes and what the run has used; see store.Runs.AddMetrics.
	Sample(ctx context.Context, runID string, samples []stint.MetricsSample, place *store.Place) error
	// AddCheckpoint attaches a checkpoint to a run that has already ended, for
	// example because it was cancelled; see store.Runs.AddCheckpoint.
	AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) error
	// AddLogs adds entries to the system log of a run, also of an ended one.
	AddLogs(ctx context.Context, runID string, entries []stint.LogEntry) error
	// Hold keeps the pending runs of a session from being assigned to this worker until
	// release is called, because the state of their predecessor is being stored.
	Hold(sessionID string) (release func())
	// Finish ends a run with an outcome; see store.Runs.
	Finish(ctx context.Context, at store.Position, o store.Outcome) (stint.Run, error)
	// Renew extends the worker's lease. holds contains the IDs of the runs that the
	// worker executes; stop contains those that it must stop.
	Renew(ctx context.Context, workerID string, holds []string) (stop []string, err error)
	// WatchStop returns a channel that receives a value when the server may have
	// ended the run. Owns reports whether the worker still owns the run. cancel ends
	// the watch.
	WatchStop(runID string) (wake <-chan struct{}, cancel func())
	// Owns reports whether the run is still running in the epoch at.Epoch.
	Owns(ctx context.Context, at store.Position) (bool, error)
	// Drain removes the worker. Its remaining runs are queued again or end with the
	// reason worker_lost.
	Drain(ctx context.Context, workerID string) error
}

// Assignment is a run that a worker has to execute.
type Assignment struct {
	Run            stint.Run
	OrgID          string
	AgentVersionID string
	Position       store.Position
	StartedAt      stint.Time // of this attempt
	Plan           *definition.Plan
	Stored         map[string]string // secrets of the organisation that the definition names; only in memory
	Given          map[string]string // secrets of the request; only in memory
	// Unnamed contains the names of secrets that the run would have received in an
	// earlier release, because its definition did not have to name them.
	Unnamed []string
	Err     error // set if the run cannot be executed; it ends as setup_failed
}

// Secrets returns all secrets of the run by name. Secrets of the request override
// stored secrets of the same name.
func (a *Assignment) Secrets() map[string]string {
	all := make(map[string]string, len(a.Stored)+len(a.Given))
	maps.Copy(all, a.Stored)
	maps.Copy(all, a.Given)
	return all
}
