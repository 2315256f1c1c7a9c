package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// mutants are stores that break one rule of the protocol each.
var mutants = []struct {
	name string
	of   func(store.Store) store.Store
}{
	{"an append that was fenced goes to the reported head", func(s store.Store) store.Store { return eagerAppend{s} }},
	{"a finish that was fenced goes to the reported head", func(s store.Store) store.Store { return eagerFinish{s} }},
	{"an append takes the next slot whatever it expects", func(s store.Store) store.Store { return blindAppend{s} }},
	{"an append does not know its own token again", func(s store.Store) store.Store { return forgetful{s} }},
	{"a cancel answers before it writes", func(s store.Store) store.Store { return &lateCancel{Store: s} }},
	{"a cancel that lost says that it won", func(s store.Store) store.Store { return vainCancel{s} }},
	{"the head is read from a cache", func(s store.Store) store.Store { return &staleHead{Store: s} }},
	{"a lease that was ended goes on", func(s store.Store) store.Store { return eternal{s} }},
}

// Mutants shows that the check of Linearizable can fail: the history of each
// broken store is found illegal.
func Mutants(t *testing.T, h Harness) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			// A slow machine gets its three rounds all the same, and it may need many.
			limit := time.Now().Add(2 * time.Minute)
			for round := 0; round < 3 || time.Now().Before(limit); round++ {
				if convicted(t, h, m.of) || t.Failed() {
					return
				}
			}
			t.Errorf("no history of the broken store was found illegal")
		})
	}
}

// convicted lets a storm rage over a broken store, which is closed behind it, and
// tells whether it shows.
func convicted(t *testing.T, h Harness, broken func(store.Store) store.Store) (illegal bool) {
	t.Helper()
	t.Run("round", func(t *testing.T) {
		w := newWorld(t, h)
		s := newStorm(w, broken(w.s), 1)
		s.run(16, 3*time.Second)
		if s.err != nil {
			t.Fatalf("a call failed: %v", s.err)
		}
		_, verdict := s.check(5 * time.Second)
		illegal = verdict == porcupine.Illegal
	})
	return illegal
}

type eagerAppend struct{ store.Store }

func (m eagerAppend) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	head, err := m.Store.Append(ctx, at, b)
	if f, ok := errors.AsType[*store.FencedError](err); ok && !f.Status.Final() {
		return m.Store.Append(ctx, store.Position{RunID: at.RunID, Epoch: f.Epoch, After: f.Head}, b)
	}
	return head, err
}

type eagerFinish struct{ store.Store }

func (m eagerFinish) Finish(ctx context.Context, at store.Position, o store.Outcome) (store.Run, error) {
	r, err := m.Store.Finish(ctx, at, o)
	if f, ok := errors.AsType[*store.FencedError](err); ok && !f.Status.Final() {
		return m.Store.Finish(ctx, store.Position{RunID: at.RunID, Epoch: f.Epoch, After: f.Head}, o)
	}
	return r, err
}

type blindAppend struct{ store.Store }

func (m blindAppend) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	head, _, err := m.Head(ctx, at.RunID)
	if err != nil {
		return 0, err
	}
	at.After = head
	return m.Store.Append(ctx, at, b)
}

type forgetful struct{ store.Store }

func (m forgetful) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	b.Token += time.Now().Format(time.StampNano)
	return m.Store.Append(ctx, at, b)
}

// lateCancel writes each cancel when the next one comes.
type lateCancel struct {
	store.Store
	mu  sync.Mutex // guards run
	run string
}

func (m *lateCancel) Cancel(ctx context.Context, org, id string, at stint.Time) (store.Run, error) {
	r, err := m.Run(ctx, org, id)
	if err != nil {
		return r, err
	}
	if r.Status.Final() {
		return r, &store.StateError{Status: r.Status}
	}
	m.mu.Lock()
	last := m.run
	m.run = id
	m.mu.Unlock()
	if last != "" {
		_, err = m.Store.Cancel(ctx, org, last, at)
		if _, ended := errors.AsType[*store.StateError](err); ended {
			err = nil
		}
	}
	r.Status = stint.Cancelled
	return r, err
}

type vainCancel struct{ store.Store }

func (m vainCancel) Cancel(ctx context.Context, org, id string, at stint.Time) (store.Run, error) {
	r, err := m.Store.Cancel(ctx, org, id, at)
	if _, ended := errors.AsType[*store.StateError](err); ended {
		return m.Run(ctx, org, id)
	}
	return r, err
}

// staleHead answers from what it read first, until the run has ended.
type staleHead struct {
	store.Store
	seen sync.Map // run → headStatus
}

type headStatus struct {
	head   int64
	status stint.Status
}

func (m *staleHead) Head(ctx context.Context, run string) (int64, stint.Status, error) {
	if v, ok := m.seen.LoadAndDelete(run); ok {
		return v.(headStatus).head, v.(headStatus).status, nil
	}
	head, status, err := m.Store.Head(ctx, run)
	m.seen.Store(run, headStatus{head, status})
	return head, status, err
}

// eternal ends no lease, so that the worker writes on.
type eternal struct{ store.Store }

func (m eternal) EndWorker(context.Context, string) error { return nil }
