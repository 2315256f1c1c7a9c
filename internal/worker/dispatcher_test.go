package worker_test

import (
	"context"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker"
)

// watched is a dispatcher that asks a test first, where it wants to be asked:
// an error of the test's is the answer.
type watched struct {
	dispatch.Dispatcher
	lease    time.Duration // 0 is the dispatcher's own
	onAppend func(store.Batch) error
	onFinish func(store.Outcome) error
	onRenew  func() error // is the whole of it
	stuck    func() bool  // whether appends and finishes get no answer
}

// hang waits while the dispatcher is stuck, and its caller waits too.
func (d *watched) hang(ctx context.Context) error {
	for d.stuck != nil && d.stuck() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func watching(d *watched) change {
	return func(c *worker.Config) { d.Dispatcher, c.Dispatcher = c.Dispatcher, d }
}

func (d *watched) Register(ctx context.Context, w store.Worker) (time.Duration, error) {
	lease, err := d.Dispatcher.Register(ctx, w)
	if d.lease > 0 {
		lease = d.lease
	}
	return lease, err
}

func (d *watched) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
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

func (d *watched) Finish(ctx context.Context, at store.Position, o store.Outcome) (stint.Run, error) {
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

func (d *watched) Renew(ctx context.Context, workerID string, holds []string) ([]string, error) {
	if d.onRenew != nil {
		return nil, d.onRenew()
	}
	return d.Dispatcher.Renew(ctx, workerID, holds)
}
