// Package worker takes runs from a dispatcher and executes them.
//
// A Worker registers, keeps its lease, and takes runs while it has capacity.
// Package run executes each of them.
package worker

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/worker/checkout"
	"github.com/stint-dev/stint/internal/worker/run"
)

// Defaults of a Config.
const (
	DefaultCapacity   = 64
	DefaultDrain      = 30 * time.Second
	DefaultStopLimit  = 30 * time.Second
	DefaultCacheBytes = 10 << 30
)

// Config configures a Worker. Dir and the required fields of run.Config must be set.
type Config struct {
	run.Config
	Dir        string        // folder for work folders and cached checkouts; no other worker may use it
	Host       string        // identifies this installation across restarts
	Capacity   int           // maximum number of runs at once
	PoolSize   int           // number of sandboxes that are prepared in advance
	Drain      time.Duration // time for which runs may continue when the worker stops
	CacheBytes int64         // maximum bytes of unused cached checkouts
	FirstTrial time.Duration // pause before the first trial on an unhealthy host; it doubles after each failure
	StopLimit  time.Duration // time in which runs must end after the drain time
}

func (c *Config) setDefaults() {
	c.SetDefaults()
	c.Capacity = cmp.Or(c.Capacity, DefaultCapacity)
	c.Drain = cmp.Or(c.Drain, DefaultDrain)
	c.FirstTrial = cmp.Or(c.FirstTrial, firstTrial)
	c.StopLimit = cmp.Or(c.StopLimit, DefaultStopLimit)
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
}

// Worker executes runs. Call Run once.
type Worker struct {
	c      Config
	shared *run.Shared

	mu   sync.Mutex // guards runs
	runs map[string]*run.Run

	freed chan struct{} // receives a value after a run has ended; capacity 1

	leftMu sync.Mutex    // guards left
	left   []leftRun     // runs whose state is to be stored
	found  chan struct{} // receives a value after left has grown; capacity 1

	wg sync.WaitGroup
}

// New returns a worker. It first removes the sandboxes that an earlier process left, and
// moves its work folders aside. It keeps cached checkouts. The dispatcher holds the
// sessions of runs whose state Run will store.
func New(ctx context.Context, c Config) (*Worker, error) {
	c.setDefaults()
	if err := c.Driver.Sweep(ctx); err != nil {
		return nil, fmt.Errorf("sweep sandboxes: %w", err)
	}
	w := &Worker{c: c, runs: map[string]*run.Run{}, freed: make(chan struct{}, 1), found: make(chan struct{}, 1)}
	shared := &run.Shared{Config: c.Config, Starts: new(checkout.Starts), WorkDir: filepath.Join(c.Dir, "work"), Health: run.NewHealth(c.Logger)}
	shared.Keep = w.keep
	w.shared = shared
	if err := w.setAside(); err != nil {
		return nil, fmt.Errorf("clear work folder: %w", err)
	}
	var err error
	shared.Cache, err = checkout.Open(filepath.Join(c.Dir, "cache"), shared.Starts.Snapshots(c.Library), c.CacheBytes, c.Logger)
	if err != nil {
		return nil, err
	}
	shared.Pool = pool.New(pool.Config{
		Driver: shared.Sandboxes(c.Driver), Dir: shared.WorkDir, NewID: func() string { return c.IDs.New(stint.PrefixSandbox) },
		Size: c.PoolSize, Resources: c.Resources, Network: shared.Networked(ctx, c.Driver), Logger: c.Logger,
	})
	return w, nil
}

// Run executes runs until ctx ends, and returns nil when all runs have ended. After the
// end of ctx, runs may continue for the drain time. After the loss of a lease, Run
// registers the worker again.
func (w *Worker) Run(ctx context.Context) error {
	filling, stopFilling := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer w.shared.Cache.Close()
	defer w.releaseLeft()
	background.Go(func() { w.shared.Pool.Fill(filling) })
	defer background.Wait()
	defer stopFilling()
	storing, stopStoring := context.WithCancel(ctx)
	defer stopStoring()
	background.Go(func() { w.storeLeft(storing) })
	for ctx.Err() == nil {
		if err := w.work(ctx); err != nil && ctx.Err() == nil {
			w.c.Logger.Error("the worker's registration ended; registering again", "error", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// Stats contains what a worker executes and keeps ready.
type Stats struct {
	Runs, Capacity int
	Pool           pool.Stats
}

// Stats returns the current numbers.
func (w *Worker) Stats() Stats {
	return Stats{Runs: len(w.held()), Capacity: w.c.Capacity, Pool: w.shared.Pool.Stats()}
}

// take requests runs while there is capacity, and starts them.
func (w *Worker) take(ctx context.Context, workerID string) {
	for ctx.Err() == nil {
		if w.Healthy() != nil {
			w.recover(ctx)
			continue
		}
		free := w.c.Capacity - len(w.held())
		if free <= 0 {
			select {
			case <-w.freed:
			case <-ctx.Done():
			}
			continue
		}
		assigned, err := w.next(ctx, workerID, free)
		for _, a := range assigned {
			w.start(ctx, a)
		}
		if err != nil && ctx.Err() == nil && w.Healthy() == nil {
			w.c.Logger.Warn("cannot take runs; trying again", "error", err)
			pause(ctx, 500*time.Millisecond)
		}
	}
}

// start executes a run in the background. The end of ctx does not affect it.
func (w *Worker) start(ctx context.Context, a dispatch.Assignment) {
	r := run.New(context.WithoutCancel(ctx), w.shared, a)
	w.mu.Lock()
	earlier := w.runs[a.Run.ID] // an attempt that is still being cleaned up
	w.runs[a.Run.ID] = r
	w.mu.Unlock()
	w.wg.Go(func() {
		if earlier != nil {
			<-earlier.Done()
		}
		r.Execute()
		w.mu.Lock()
		if w.runs[a.Run.ID] == r {
			delete(w.runs, a.Run.ID)
		}
		w.mu.Unlock()
		select {
		case w.freed <- struct{}{}:
		default:
		}
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
