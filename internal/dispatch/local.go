package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/telemetry"
)

// Defaults of Config.
const (
	DefaultLease = 15 * time.Second
	DefaultPoll  = time.Second
)

// appendLimit is the time limit of an append. It is longer than the time limit of a
// store's group commit, so that an attempt has ended before it is repeated.
const appendLimit = time.Minute

// Config contains the dependencies and settings of a Local. Store, Bus, Feed,
// Sealer, and Now are required.
type Config struct {
	Store    Store
	Bus      notify.Bus
	Feed     *feed.Feed
	Sealer   *sealing.Sealer
	Now      func() time.Time
	Logger   *slog.Logger
	Metrics  *telemetry.Product // if nil, nothing is counted
	Lease    time.Duration      // how long a worker may be silent; 0 is DefaultLease
	Poll     time.Duration      // interval at which an idle worker asks for runs; 0 is DefaultPoll
	PerOrg   int                // limit of running runs of an organisation; 0 is unlimited
	PerAgent int                // limit of running runs of an agent; 0 is unlimited
	Labels   map[string]string  // of the workers, for placement
}

// Store is the part of store.Store that a Local needs.
type Store interface {
	store.Workers
	Claim(ctx context.Context, c store.ClaimRequest) ([]store.Claim, error)
	Append(ctx context.Context, at store.Position, b store.Batch) (head int64, err error)
	AddLogs(ctx context.Context, run string, entries []stint.LogEntry) error
	AddMetrics(ctx context.Context, runID string, samples []stint.MetricsSample, place *store.Place) error
	Finish(ctx context.Context, at store.Position, o store.Outcome) (store.Run, error)
	AddCheckpoint(ctx context.Context, at store.Position, v *store.RunVersion, c store.Checkpoint) (store.Run, error)
	Expire(ctx context.Context, before, at stint.Time, limit int) ([]string, error)
	EndPauses(ctx context.Context, at stint.Time, n int) (ids []string, next *stint.Time, err error)
	AttemptState(ctx context.Context, runID string) (store.AttemptState, error)
	RunState(ctx context.Context, id string) (status stint.Status, epoch int64, err error)

	Secrets(ctx context.Context, org string) ([]store.Secret, error)
	Session(ctx context.Context, org, id string) (store.Session, error)
	Checkpoint(ctx context.Context, org, id string) (store.Checkpoint, error)
	FileSetByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (store.FileSet, error)
	FileSetVersion(ctx context.Context, org, fileSet, id string, number int64) (store.FileSetVersion, error)
}

// Local is the Dispatcher of workers in the same process.
type Local struct {
	c      Config
	paused chan struct{} // receives a value after a run was queued again; capacity 1

	mu   sync.Mutex     // guards idle and held
	idle []*waiter      // workers that wait in Next; the last one is taken first
	held map[string]int // number of calls of Hold by session
}

var _ Dispatcher = (*Local)(nil)

// waiter is a worker that waits in Next. If another function than withdraw removes the
// waiter from the list, exactly one value must be sent to claims.
type waiter struct {
	workerID string
	claims   chan []store.Claim // capacity 1
}

// NewLocal returns a Local.
func NewLocal(c Config) *Local {
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewProduct(nil)
	}
	return &Local{c: c, paused: make(chan struct{}, 1), held: map[string]int{}}
}

// Register adds a worker.
func (l *Local) Register(ctx context.Context, w store.Worker) (time.Duration, error) {
	if err := l.c.Store.Register(ctx, w, l.c.Lease); err != nil {
		return 0, fmt.Errorf("register worker %s: %w", w.ID, err)
	}
	return l.c.Lease, nil
}

// Next claims runs. If there are none, it waits for a wake-up or the poll interval, and
// tries again.
func (l *Local) Next(ctx context.Context, workerID string, free int) ([]Assignment, error) {
	wake, cancel := l.c.Bus.Subscribe(notify.TopicQueue)
	defer cancel()
	poll := time.NewTicker(l.c.Poll)
	defer poll.Stop()
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		claims, err := l.claim(ctx, workerID, free)
		if err != nil {
			return nil, fmt.Errorf("claim runs: %w", err)
		}
		if len(claims) == 0 {
			claims = l.wait(ctx, workerID, wake, poll.C)
		}
		if len(claims) > 0 {
			return l.assign(ctx, claims), nil
		}
	}
}

func (l *Local) claim(ctx context.Context, workerID string, limit int) ([]store.Claim, error) {
	ctx, cancel := store.CommitContext(ctx)
	defer cancel()
	l.mu.Lock()
	c := l.claimer(workerID, limit)
	l.mu.Unlock()
	return l.c.Store.Claim(ctx, c)
}

func (l *Local) claimer(workerID string, limit int) store.ClaimRequest {
	return store.ClaimRequest{
		WorkerID: workerID, Max: limit, PerOrg: l.c.PerOrg, PerAgent: l.c.PerAgent, At: stint.TimeOf(l.c.Now()), Labels: l.c.Labels,
		Without: slices.Sorted(maps.Keys(l.held)),
	}
}

// Hold excludes the runs of a session from claims until release is called.
func (l *Local) Hold(sessionID string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[sessionID]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		if l.held[sessionID]--; l.held[sessionID] == 0 {
			delete(l.held, sessionID)
		}
		l.mu.Unlock()
		l.c.Bus.Publish(notify.TopicQueue)
	})
}

// Limits returns the maximum number of running runs of an organisation and of an agent; 0
// is unlimited.
func (l *Local) Limits() (perOrg, perAgent int) { return l.c.PerOrg, l.c.PerAgent }

// IsHeld reports whether the runs of a session wait for the state of their predecessor.
func (l *Local) IsHeld(sessionID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[sessionID] > 0
}

// wait adds the worker to the list of idle workers and waits. It returns the runs that
// the creator of a run claimed for the worker. If it returns none, the caller must ask
// the store again.
func (l *Local) wait(ctx context.Context, workerID string, wake <-chan struct{}, poll <-chan time.Time) []store.Claim {
	w := &waiter{workerID: workerID, claims: make(chan []store.Claim, 1)}
	l.mu.Lock()
	l.idle = append(l.idle, w)
	l.mu.Unlock()
	select {
	case claims := <-w.claims:
		return claims
	case <-wake:
	case <-poll:
	case <-ctx.Done():
	}
	if l.withdraw(w) {
		return nil
	}
	return <-w.claims // TakeIdle removed the waiter, and its caller will call deliver
}

// withdraw removes w from the list of idle workers and reports whether it was there.
func (l *Local) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.idle, w)
	if i < 0 {
		return false
	}
	l.idle = slices.Delete(l.idle, i, i+1)
	return true
}

// TakeIdle removes a worker from the list of idle workers, so that the creator of a run
// can claim the run for this worker in the same transaction. The caller must call
// deliver exactly once, with the claims or nil. If no worker is idle, both results are
// nil.
func (l *Local) TakeIdle() (claimer *store.ClaimRequest, deliver func([]store.Claim)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.idle) == 0 {
		return nil, nil
	}
	w := l.idle[len(l.idle)-1]
	l.idle = l.idle[:len(l.idle)-1]
	c := l.claimer(w.workerID, 1)
	return &c, func(claims []store.Claim) { w.claims <- claims }
}
