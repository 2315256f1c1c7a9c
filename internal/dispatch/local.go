package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
)

// DefaultLease is how long a worker may stay silent before its runs are lost.
const DefaultLease = 15 * time.Second

// DefaultPoll is how often an idle worker asks without having been woken.
const DefaultPoll = time.Second

// How long a store may take before it is believed to hang. A write of which no
// answer came may have been committed, or may still be; its token makes trying
// again safe.
const (
	commitLimit = 30 * time.Second
	appendLimit = time.Minute // longer than a store gives a commit that many share, so that the next try does not meet this one
)

// CommitContext is the context for a write of which somebody must hear once it is
// committed: it goes on when the caller leaves in the middle.
func CommitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
}

// Config is what a Local is made of. Store, Bus, Feed, Sealer and Now are
// required.
type Config struct {
	Store    store.Store
	Bus      notify.Bus
	Feed     *feed.Feed
	Sealer   *sealing.Sealer
	Now      func() time.Time
	Logger   *slog.Logger
	Lease    time.Duration // DefaultLease when 0
	Poll     time.Duration // DefaultPoll when 0
	PerOrg   int           // running runs of one organisation at once; 0 = unlimited
	PerAgent int           // running runs of one agent at once; 0 = unlimited
}

// Local is the Dispatcher of workers in the same process.
type Local struct {
	c Config

	mu   sync.Mutex // guards idle
	idle []*waiter  // workers that wait for work; the last one is taken first
}

var _ Dispatcher = (*Local)(nil)

// waiter is a worker that waits in Next. Who removes it from the list owes it
// exactly one value.
type waiter struct {
	workerID string
	claims   chan []store.Claim // buffered, 1
}

// NewLocal makes the dispatcher.
func NewLocal(c Config) *Local {
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	return &Local{c: c}
}

// Register opens a life of the worker.
func (l *Local) Register(ctx context.Context, w store.Worker) (time.Duration, error) {
	if err := l.c.Store.Register(ctx, w, l.c.Lease); err != nil {
		return 0, fmt.Errorf("register worker %s: %w", w.ID, err)
	}
	return l.c.Lease, nil
}

// Next claims at once when there is work, else waits to be woken, polling as
// the net below.
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

func (l *Local) claim(ctx context.Context, workerID string, most int) ([]store.Claim, error) {
	ctx, cancel := CommitContext(ctx)
	defer cancel()
	return l.c.Store.Claim(ctx, l.claimer(workerID, most))
}

func (l *Local) claimer(workerID string, most int) store.ClaimRequest {
	return store.ClaimRequest{WorkerID: workerID, Max: most, PerOrg: l.c.PerOrg, PerAgent: l.c.PerAgent, At: stint.TimeOf(l.c.Now())}
}

// wait offers the worker to creators of runs and returns what one of them
// claimed for it, or nothing when there is a reason to ask the store again.
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
	return <-w.claims // somebody took the waiter and is about to answer
}

func (l *Local) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.idle {
		if other == w {
			l.idle = append(l.idle[:i], l.idle[i+1:]...)
			return true
		}
	}
	return false
}

// TakeIdle takes an idle worker, so that whoever creates a run claims in the
// same transaction. deliver must be called exactly once, with what was claimed
// or nil. Without an idle worker it returns nil twice.
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

// assign turns claims into assignments: it opens the secrets and settles what
// a continued session left open. What is claimed is told of, also to a caller
// that leaves.
func (l *Local) assign(ctx context.Context, claims []store.Claim) []Assignment {
	ctx, cancel := CommitContext(ctx)
	defer cancel()
	out := make([]Assignment, len(claims))
	for i, c := range claims {
		l.c.Feed.Wake(c.Run.ID)
		a := Assignment{Run: c.Run.Run, OrgID: c.Run.OrgID, AgentVersionID: c.Run.AgentVersionID, Position: c.Position}
		a.Plan, a.Err = definition.DecodePlan(c.Run.Spec)
		if a.Err == nil {
			a.Given, a.Err = l.openGiven(&c.Run)
		}
		if a.Err == nil {
			a.Stored, a.Err = l.openStored(ctx, c.Run.OrgID, a.Given)
		}
		if a.Err == nil {
			a.Err = l.settle(ctx, &c.Run, a.Plan)
		}
		out[i] = a
	}
	return out
}

// openStored reads the organisation's secrets as they are now. It refuses more
// than can be masked along with those that the run was given.
func (l *Local) openStored(ctx context.Context, org string, given map[string]string) (map[string]string, error) {
	rows, err := l.c.Store.Secrets(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("read stored secrets: %w", err)
	}
	secrets := make(map[string]string, len(rows))
	for _, row := range rows {
		value, err := l.c.Sealer.Open(row.Sealed, row.AssociatedData())
		if err != nil {
			return nil, fmt.Errorf("open stored secret %s: %w", row.Name, err)
		}
		secrets[row.Name] = string(value)
	}
	if masking.CheckLimits("secrets", slices.Concat(slices.Collect(maps.Values(secrets)), slices.Collect(maps.Values(given)))) != nil {
		return nil, stint.InvalidState("The organisation's stored secrets and those of the run are more than can be masked: %d secrets of %d bytes together. Delete stored ones that are no longer used.",
			masking.MaxValues, masking.MaxTotalSize)
	}
	return secrets, nil
}

func (l *Local) openGiven(r *store.Run) (map[string]string, error) {
	if len(r.Sealed) == 0 {
		return nil, nil
	}
	plain, err := l.c.Sealer.Open(r.Sealed, []byte(r.ID))
	if err != nil {
		return nil, fmt.Errorf("open the secrets of %s: %w", r.ID, err)
	}
	var secrets map[string]string
	if err := json.Unmarshal(plain, &secrets); err != nil {
		return nil, fmt.Errorf("read the secrets of %s: %w", r.ID, err)
	}
	return secrets, nil
}

// settle fills what the spec takes from the present: the session's newest
// state and the artifact's head.
func (l *Local) settle(ctx context.Context, r *store.Run, s *definition.Plan) error {
	if s.FromSession {
		if err := l.settleSession(ctx, r, s); err != nil {
			return err
		}
	}
	if s.Artifact == nil || !s.Artifact.Latest {
		return nil
	}
	s.Workspace = ""
	tree, err := l.c.Store.FileSetByName(ctx, r.OrgID, stint.Artifacts, s.Artifact.Name)
	if errors.Is(err, store.ErrNotFound) || err == nil && tree.CurrentVersionID == nil {
		return nil // it will be made at the end
	}
	if err != nil {
		return fmt.Errorf("find artifact %s: %w", s.Artifact.Name, err)
	}
	head, err := l.c.Store.FileSetVersion(ctx, r.OrgID, tree.ID, "", 0)
	if err != nil {
		return fmt.Errorf("find head of artifact %s: %w", s.Artifact.Name, err)
	}
	s.Workspace = head.Digest
	return nil
}

func (l *Local) settleSession(ctx context.Context, r *store.Run, s *definition.Plan) error {
	session, err := l.c.Store.Session(ctx, r.OrgID, r.SessionID)
	if err != nil {
		return fmt.Errorf("find session %s: %w", r.SessionID, err)
	}
	if session.CheckpointID == nil {
		return nil
	}
	c, err := l.c.Store.Checkpoint(ctx, r.OrgID, *session.CheckpointID)
	if err != nil {
		return fmt.Errorf("find checkpoint %s: %w", *session.CheckpointID, err)
	}
	s.Home = c.HomeDigest
	if s.Artifact == nil {
		s.Workspace = c.WorkspaceDigest
	}
	return nil
}
