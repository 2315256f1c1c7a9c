package worker_test

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

// hookedDispatcher is a dispatcher that calls functions of a test before it calls the
// wrapped dispatcher. If such a function returns an error, the method returns this error
// and does not call the wrapped dispatcher.
type hookedDispatcher struct {
	dispatch.Dispatcher
	lease    time.Duration // duration of the lease; 0 means the duration of the wrapped dispatcher
	onAppend func(store.Batch) error
	onFinish func(store.Outcome) error
	onAttach func() error // called before AddCheckpoint
	onRenew  func() error // called instead of Renew of the wrapped dispatcher
	stuck    func() bool  // while stuck returns true, Append and Finish block
}

// hang blocks while stuck returns true. If ctx ends first, hang returns its error.
func (d *hookedDispatcher) hang(ctx context.Context) error {
	for d.stuck != nil && d.stuck() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func withDispatcher(d *hookedDispatcher) change {
	return func(c *worker.Config) { d.Dispatcher, c.Dispatcher = c.Dispatcher, d }
}

func (d *hookedDispatcher) Register(ctx context.Context, w store.Worker) (time.Duration, error) {
	lease, err := d.Dispatcher.Register(ctx, w)
	if d.lease > 0 {
		lease = d.lease
	}
	return lease, err
}

func (d *hookedDispatcher) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	if err := d.hang(ctx); err != nil {
		return 0, err
	}
	if d.onAppend != nil {
		if err := d.onAppend(b); err != nil {
			return 0, err
		}
	}
	return d.Dispatcher.Append(ctx, at, b)
}

func (d *hookedDispatcher) Finish(ctx context.Context, at store.Position, o store.Outcome) (stint.Run, error) {
	if err := d.hang(ctx); err != nil {
		return stint.Run{}, err
	}
	if d.onFinish != nil {
		if err := d.onFinish(o); err != nil {
			return stint.Run{}, err
		}
	}
	return d.Dispatcher.Finish(ctx, at, o)
}

func (d *hookedDispatcher) AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) error {
	if d.onAttach != nil {
		if err := d.onAttach(); err != nil {
			return err
		}
	}
	return d.Dispatcher.AddCheckpoint(ctx, at, v, c)
}

func (d *hookedDispatcher) Renew(ctx context.Context, workerID string, holds []string) ([]string, error) {
	if d.onRenew != nil {
		return nil, d.onRenew()
	}
	return d.Dispatcher.Renew(ctx, workerID, holds)
}
