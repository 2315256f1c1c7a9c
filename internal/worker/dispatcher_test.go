package worker_test

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

// hookedDispatcher is a dispatcher that calls functions of a test first. It
// returns their error.
type hookedDispatcher struct {
	dispatch.Dispatcher
	lease    time.Duration // 0: that of the dispatcher
	onAppend func(store.Batch) error
	onFinish func(store.Outcome) error
	onRenew  func() error // instead of the dispatcher
	stuck    func() bool  // appends and finishes block
}

// hang blocks while the dispatcher is stuck and ctx has not ended.
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

func (d *hookedDispatcher) Renew(ctx context.Context, workerID string, holds []string) ([]string, error) {
	if d.onRenew != nil {
		return nil, d.onRenew()
	}
	return d.Dispatcher.Renew(ctx, workerID, holds)
}
