package store

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
)

// Workers stores the leases of workers. Each start of a worker process has its
// own row (an incarnation).
type Workers interface {
	// Register adds an incarnation with a lease until Now + ttl.
	Register(ctx context.Context, w Worker, ttl time.Duration) error
	// Renew extends the lease to Now + ttl and returns the runs among holds
	// that the worker must stop, because it no longer owns them.
	//
	// If a run was claimed more than ttl ago and is not in holds, the worker
	// never received the claim. The run is taken from the worker, and the next
	// Reap ends or requeues it. If such a run was cancelled, its mounts are
	// released by the next Reap. If the lease has ended, the error is
	// ErrLeaseLost.
	Renew(ctx context.Context, id string, holds []string, ttl time.Duration) (stop []string, err error)
	// Reap ends the leases that have expired by the database's clock. Each run
	// of such a worker ends as failed with worker_lost, with the same events as
	// a Finish. If its epoch is not above MaxRetries, it becomes pending again
	// instead, with a status event. Cancelled runs of such a worker release
	// their mounts. A worker's row is removed when it has no runs left. At most
	// n runs are reaped; Reap returns their IDs.
	Reap(ctx context.Context, at stint.Time, n int) ([]string, error)
	// EndWorker ends the lease of a worker at once. From then on the worker
	// cannot claim, append, or finish, and the next Reap handles its runs.
	EndWorker(ctx context.Context, id string) error
	// EndWorkersOnHost ends the leases of all earlier incarnations on a host. A
	// server calls it after a restart.
	EndWorkersOnHost(ctx context.Context, host string) error
}

// Worker is one incarnation of a worker process.
type Worker struct {
	ID        string
	Host      string // the same after each restart of an installation
	Capacity  int
	CreatedAt stint.Time
}
