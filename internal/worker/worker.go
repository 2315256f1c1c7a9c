// Package worker answers: how is one run executed?
//
// An Worker is a worker: it joins a dispatcher, takes runs while it has room
// and works each as a job, a fixed order of steps with a file each:
//
//	materialise → launch → record, watch, sample → snapshot → finish
//
// State leads and the sandbox follows: who cancels a run commits first, the
// job learns of it and obeys; the loser of a race discards its result. A job
// always ends, and always cleans up.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/registry"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/worker/checkout"
)

// Defaults of a Config.
const (
	DefaultCapacity     = 64
	DefaultDrain        = 30 * time.Second
	DefaultCancelGrace  = 800 * time.Millisecond
	DefaultTimeoutGrace = 10 * time.Second
	DefaultExitGrace    = 5 * time.Second
	DefaultCacheBytes   = 10 << 30
)

// Config is what an Worker is made of. Dispatcher, Driver, Library, IDs, Now
// and Dir are required.
type Config struct {
	Dispatcher dispatch.Dispatcher
	Driver     sandbox.Driver // of definitions that name none
	// Isolator gives another by its name, or the reason why not; nil offers no
	// other.
	Isolator    func(ctx context.Context, name string) (sandbox.Driver, error)
	Images      Images          // nil offers none but the host's own system
	Gate        *egress.Gateway // nil gives sandboxes no network
	TrustBundle string          // file of the certificates that make the gate believed
	AgentCLIs   AgentCLIs       // nil: nothing is installed
	// Frameworks finds what drives a definition's agent; nil is registry.Find.
	Frameworks func(*stint.Definition) (framework.Framework, error)
	// RunToken gives a run the token with which its agent may call the API, where
	// its definition hands it that; nil hands it to none.
	RunToken     func(a *dispatch.Assignment) (string, error)
	PoolSize     int // sandboxes that are prepared ahead
	Library      *files.Library
	IDs          *stint.IDs
	Now          func() time.Time
	Dir          string // of work folders and trees that lie ready; only this engine uses it
	Host         string // names this installation across restarts
	Logger       *slog.Logger
	Capacity     int               // runs at once
	ExitGrace    time.Duration     // between an agent's last word and its end, if it does not end itself
	Drain        time.Duration     // how long running runs may go on when the engine stops
	CancelGrace  time.Duration     // between SIGTERM and SIGKILL after a cancel
	TimeoutGrace time.Duration     // the same after the time limit
	CacheBytes   int64             // of trees that lie ready and nobody uses
	Resources    sandbox.Resources // where the definition says nothing
}

func (c *Config) defaults() {
	if c.Capacity == 0 {
		c.Capacity = DefaultCapacity
	}
	if c.Drain == 0 {
		c.Drain = DefaultDrain
	}
	if c.CancelGrace == 0 {
		c.CancelGrace = DefaultCancelGrace
	}
	if c.TimeoutGrace == 0 {
		c.TimeoutGrace = DefaultTimeoutGrace
	}
	if c.Frameworks == nil {
		c.Frameworks = registry.Find
	}
	if c.ExitGrace == 0 {
		c.ExitGrace = DefaultExitGrace
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Worker is a worker. Run it once.
type Worker struct {
	c         Config
	cache     *checkout.Cache
	forks     *forks
	checkouts checkouts
	pool      *pool.Pool
	work      string // folder of the sandboxes' folders

	reports sync.Map // by driver's name, what it can do here

	mu   sync.Mutex // guards jobs
	jobs map[string]*job

	freed chan struct{} // a job ended; buffered, 1
	wg    sync.WaitGroup
}

// New clears what an earlier life left in the folder and makes the engine.
func New(ctx context.Context, c Config) (*Worker, error) {
	c.defaults()
	if err := c.Driver.Sweep(ctx); err != nil {
		return nil, fmt.Errorf("sweep sandboxes: %w", err)
	}
	work := filepath.Join(c.Dir, "work")
	if err := c.clearWork(work); err != nil {
		return nil, fmt.Errorf("clear work folder: %w", err)
	}
	started := new(forks)
	written := checkouts{c.Library, started}
	trees, err := checkout.Open(filepath.Join(c.Dir, "cache"), written, c.CacheBytes, c.Logger)
	if err != nil {
		return nil, err
	}
	e := &Worker{c: c, forks: started, checkouts: written, cache: trees, work: work, jobs: map[string]*job{}, freed: make(chan struct{}, 1)}
	e.pool = pool.New(pool.Config{
		Driver: starter{c.Driver, started}, Dir: work, NewID: func() string { return c.IDs.New(stint.PrefixSandbox) },
		Size: c.PoolSize, Resources: c.Resources, Network: e.networked(ctx, c.Driver), Logger: c.Logger,
	})
	return e, nil
}

// clearWork makes an empty work folder. What an earlier life left in it is put
// aside and removed; where it cannot be, runs need not wait for somebody who can.
func (c *Config) clearWork(work string) error {
	aside := filepath.Join(c.Dir, "aside")
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	if err := os.Rename(work, filepath.Join(aside, c.IDs.New(stint.PrefixSandbox))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sandbox.Remove(aside); err != nil {
		c.Logger.Warn("folders of earlier runs could not be removed; remove them by hand", "folder", aside, "error", err)
	}
	return os.Mkdir(work, 0o700)
}

// Run works runs until ctx ends, then lets running ones go on for the drain
// time, ends what is left and gives the worker's life up. After a lost lease
// it begins a new life.
func (e *Worker) Run(ctx context.Context) error {
	filling, stopFilling := context.WithCancel(context.WithoutCancel(ctx))
	var parking sync.WaitGroup
	defer e.cache.Close()
	parking.Go(func() { e.pool.Fill(filling) })
	defer parking.Wait()
	defer stopFilling()
	for ctx.Err() == nil {
		if err := e.live(ctx); err != nil && ctx.Err() == nil {
			e.c.Logger.Error("worker life ended; starting a new one", "error", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// live is one life of the worker: from joining to leaving.
func (e *Worker) live(ctx context.Context) error {
	id := e.c.IDs.New(stint.PrefixWorker)
	lease, err := e.c.Dispatcher.Register(ctx, store.Worker{ID: id, Host: e.c.Host, Capacity: e.c.Capacity, CreatedAt: stint.TimeOf(e.c.Now())})
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	lost := make(chan error, 1)
	go func() { lost <- e.renew(renewing, id, lease) }()

	takeEnded := make(chan struct{})
	go func() { defer close(takeEnded); e.take(taking, id) }()

	var lifeErr error
	select {
	case <-ctx.Done():
		stopTaking()
		<-takeEnded
		lifeErr = e.drain(lost)
	case lifeErr = <-lost:
		e.stopAll(errLeaseLost)
		stopTaking()
		<-takeEnded
		e.stopAll(errLeaseLost) // what was taken meanwhile
		e.wg.Wait()
	}
	if lifeErr != nil {
		return lifeErr
	}
	stopRenewing()
	if err := <-lost; err != nil {
		return err
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return e.c.Dispatcher.Drain(leave, id)
}

// take asks for work while there is room and starts a job for each run.
func (e *Worker) take(ctx context.Context, workerID string) {
	for ctx.Err() == nil {
		free := e.c.Capacity - e.running()
		if free <= 0 {
			select {
			case <-e.freed:
			case <-ctx.Done():
			}
			continue
		}
		assigned, err := e.c.Dispatcher.Next(ctx, workerID, free)
		for _, a := range assigned {
			e.start(ctx, a)
		}
		if err != nil && ctx.Err() == nil {
			e.c.Logger.Warn("cannot take runs; trying again", "error", err)
			pause(ctx, 500*time.Millisecond)
		}
	}
}

func (e *Worker) running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.jobs)
}

// start works an assignment in the background, unaffected by the end of ctx.
func (e *Worker) start(ctx context.Context, a dispatch.Assignment) {
	j := newJob(context.WithoutCancel(ctx), e, a)
	e.mu.Lock()
	e.jobs[a.Run.ID] = j
	e.mu.Unlock()
	e.wg.Go(func() {
		j.run()
		e.mu.Lock()
		delete(e.jobs, a.Run.ID)
		e.mu.Unlock()
		select {
		case e.freed <- struct{}{}:
		default:
		}
	})
}

// drain waits for the jobs, at most for the drain time, and ends what is left.
// It returns why the lease was lost when that ends the waiting.
func (e *Worker) drain(lost <-chan error) (err error) {
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }()
	limit := time.NewTimer(e.c.Drain)
	defer limit.Stop()
	cause := errDrained
	select {
	case <-done:
	case <-limit.C:
	case err = <-lost:
		cause = errLeaseLost
	}
	e.stopAll(cause)
	<-done
	return err
}

func (e *Worker) stopAll(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.jobs {
		j.disown(cause)
	}
}

// renew keeps the lease each third of its time. Without an answer for two
// thirds, or told that the lease is lost, it returns: the runs belong to
// somebody else soon.
func (e *Worker) renew(ctx context.Context, workerID string, lease time.Duration) error {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		held := e.held()
		attempt, cancel := context.WithTimeout(ctx, lease/3)
		stop, err := e.c.Dispatcher.Renew(attempt, workerID, held)
		cancel()
		switch {
		case err == nil:
			answered = time.Now()
			e.stopRuns(stop)
		case errors.Is(err, store.ErrLeaseLost):
			return err
		case ctx.Err() == nil && time.Since(answered) >= lease*2/3:
			return fmt.Errorf("no answer for two thirds of the lease: %w", err)
		}
	}
}

func (e *Worker) held() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := make([]string, 0, len(e.jobs))
	for id := range e.jobs {
		ids = append(ids, id)
	}
	return ids
}

func (e *Worker) stopRuns(ids []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if j := e.jobs[id]; j != nil {
			j.disown(errStopped)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
