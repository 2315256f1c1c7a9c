// Package jobs runs periodic background jobs.
package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Job is a periodic job. Calls of Do do not overlap. If Do returns an error before its
// context has ended, the error is logged, and Do is called again after the usual
// interval.
type Job struct {
	Name  string
	Every time.Duration
	Do    func(ctx context.Context) error
}

// Run runs the jobs concurrently until ctx ends, and returns when all calls of Do have
// returned. It runs each job once at the start, and then at the interval Every.
func Run(ctx context.Context, log *slog.Logger, jobs ...Job) {
	var wg sync.WaitGroup
	for _, c := range jobs {
		wg.Go(func() { repeat(ctx, log, c) })
	}
	wg.Wait()
}

func repeat(ctx context.Context, log *slog.Logger, c Job) {
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		if err := c.Do(ctx); err != nil && ctx.Err() == nil {
			log.Error("background job failed and will be repeated", "job", c.Name, "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
