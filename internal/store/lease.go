package store

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
)

// Workers stores the leases of workers. Each start of a worker process is an
// incarnation with its own row. Leases are measured by the database's clock.
type Workers interface {
	// Register adds an incarnation with a lease that ends after ttl.
	Register(ctx context.Context, w Worker, ttl time.Duration) error
	// Renew extends the lease so that it ends after ttl, and returns the runs
	// among holds that the worker must stop, because it no longer owns them.
	// holds lists the runs that the worker executes.
	//
	// If a running run of the worker was claimed more than ttl ago and is not in
	// holds, the worker never received the claim. Renew takes the run from the
	// worker, and the next Reap ends or requeues it. If a cancelled run was
	// claimed more than ttl ago and is not in holds, the next Reap releases its
	// mounts. If the lease has ended, the error is ErrLeaseLost.
	Renew(ctx context.Context, id string, holds []string, ttl time.Duration) (stop []string, err error)
	// Reap ends the leases that have expired, and then handles the runs of
	// workers without a lease. If the Retries of a running run allow another
	// attempt after worker_lost, the run becomes pending again, as after a Finish.
	// Otherwise it ends as failed with worker_lost, with the same events as a Finish.
	// Cancelled runs release their mounts, and a run whose worker stopped it without
	// saving a state gets the AttemptState as its checkpoint. The row of a worker is
	// removed when the worker has no runs left. At most n running runs are handled;
	// Reap returns their IDs.
	Reap(ctx context.Context, at stint.Time, n int) ([]string, error)
	// EndWorker ends the lease of a worker at once. From then on the worker
	// cannot claim, append, or finish, and the next Reap handles its runs.
	EndWorker(ctx context.Context, id string) error
	// RunningOnHost returns the IDs of the running runs of all incarnations on a host.
	RunningOnHost(ctx context.Context, host string) ([]string, error)
	// EndWorkersOnHost ends the leases of all incarnations on a host. A server
	// calls it at its start, before it registers its worker.
	EndWorkersOnHost(ctx context.Context, host string) error
	// DescribeHost records what the worker of a host offers, with the present time of
	// the database's clock. It replaces the earlier record; h.Unseen is ignored.
	DescribeHost(ctx context.Context, h Host) error
	// Hosts returns all hosts that were ever described, by name.
	Hosts(ctx context.Context) ([]Host, error)
}

// Host is what the worker of an installation offers to definitions.
type Host struct {
	Name       string            // as in Worker
	Isolations []string          // names of the isolators that work there
	Frameworks []string          // names of the frameworks whose programs are installed there
	Labels     map[string]string // for placement
	Unseen     time.Duration     // since the last DescribeHost
}

// Worker is one incarnation of a worker process.
type Worker struct {
	ID        string
	Host      string // the same after each restart of an installation
	Capacity  int
	CreatedAt stint.Time
}
