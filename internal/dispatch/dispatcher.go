// Package dispatch answers: how do servers and workers talk?
//
// Five verbs: Next gives a worker runs to work, Append and Finish take what it
// has to say of them, Renew keeps its lease and tells it what to stop, Drain
// ends its life. A worker in the same process calls them as functions.
package dispatch

import (
	"context"
	"maps"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// Dispatcher is the server as a worker sees it. It is safe for concurrent use.
//
// Append, Finish and Keep end within a bounded time. An error of theirs that is
// no *store.FencedError leaves open what was written: the same call again, as
// long as the run is held, settles it.
type Dispatcher interface {
	// Join opens a life of the worker; its lease runs for the returned time
	// unless renewed.
	Register(ctx context.Context, w store.Worker) (lease time.Duration, err error)
	// Next waits until there is work and returns up to free assignments. When
	// ctx ends it returns what was claimed by then, or none.
	Next(ctx context.Context, workerID string, free int) ([]Assignment, error)
	// Append adds to the journal; see store.Journal.
	Append(ctx context.Context, at store.Position, b store.Batch) (head int64, err error)
	// Sample stores metrics of a run.
	Sample(ctx context.Context, runID string, samples []stint.MetricsSample) error
	// Keep attaches what was saved of a run that ended by other hands; see
	// store.Runs.AddCheckpoint.
	AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) error
	// Finish ends a run; see store.Runs.
	Finish(ctx context.Context, at store.Position, o store.Outcome) (stint.Run, error)
	// Renew extends the lease and returns which of the held runs to stop.
	Renew(ctx context.Context, workerID string, holds []string) (stop []string, err error)
	// Stopped returns a channel that receives when a held run may have ended
	// by other hands; Owns tells whether it did. cancel ends the watch.
	WatchStop(runID string) (wake <-chan struct{}, cancel func())
	// Owns reports whether the run is still running under that epoch.
	Owns(ctx context.Context, at store.Position) (bool, error)
	// Drain ends the worker's life: what it still holds is up for others at
	// once, or lost.
	Drain(ctx context.Context, workerID string) error
}

// Assignment is a run that a worker is to execute.
type Assignment struct {
	Run            stint.Run
	OrgID          string
	AgentVersionID string
	Position       store.Position
	Plan           *definition.Plan
	Stored         map[string]string // the organisation's secrets; in memory only
	Given          map[string]string // the request's secrets; in memory only
	Err            error             // why it cannot be worked: the worker ends it as setup_failed
}

// Secrets are all secrets of the run; the request's win over stored ones.
func (a *Assignment) Secrets() map[string]string {
	all := make(map[string]string, len(a.Stored)+len(a.Given))
	maps.Copy(all, a.Stored)
	maps.Copy(all, a.Given)
	return all
}
