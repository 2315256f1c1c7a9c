// Package jobs answers: who cleans up?
//
// Small chores, each on a ticker of its own, under one supervisor that ends
// with them: lost workers, runs that waited too long, answers that expired,
// times of last use.
package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Job is something to be done again and again. Do is never called twice at
// once; an error is logged and the next turn tries again.
type Job struct {
	Name  string
	Every time.Duration
	Do    func(ctx context.Context) error
}

// Run does the chores until ctx ends and returns when all have stopped. Each
// is done once at the beginning.
func Run(ctx context.Context, log *slog.Logger, chores ...Job) {
	var wg sync.WaitGroup
	for _, c := range chores {
		wg.Go(func() { repeat(ctx, log, c) })
	}
	wg.Wait()
}

func repeat(ctx context.Context, log *slog.Logger, c Job) {
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		if err := c.Do(ctx); err != nil && ctx.Err() == nil {
			log.Error("chore failed; it will be tried again", "chore", c.Name, "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
