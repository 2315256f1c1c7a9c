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

// mutants lists faulty stores. Each wraps a correct store and breaks one rule of the
// protocol.
var mutants = []struct {
	name string
	of   func(store.Store) store.Store
}{
	{"a fenced append is repeated at the reported head", func(s store.Store) store.Store { return appendAtHead{s} }},
	{"a fenced finish is repeated at the reported head", func(s store.Store) store.Store { return finishAtHead{s} }},
	{"an append ignores its position", func(s store.Store) store.Store { return unconditionalAppend{s} }},
	{"an append does not recognise its own token", func(s store.Store) store.Store { return uniqueTokens{s} }},
	{"a cancel is acknowledged before it is written", func(s store.Store) store.Store { return &lateCancel{Store: s} }},
	{"a cancel of an ended run succeeds", func(s store.Store) store.Store { return falseCancel{s} }},
	{"the head is read from a cache", func(s store.Store) store.Store { return &staleHead{Store: s} }},
	{"an ended lease stays valid", func(s store.Store) store.Store { return endlessLease{s} }},
}

// Mutants checks that the check of Linearizable detects each faulty store.
func Mutants(t *testing.T, h Harness) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			// Detection may need many rounds. At least three rounds run, even if they take longer than the limit.
			limit := time.Now().Add(2 * time.Minute)
			for round := 0; round < 3 || time.Now().Before(limit); round++ {
				if isDetected(t, h, m.of) || t.Failed() {
					return
				}
			}
			t.Errorf("the faulty store was not detected")
		})
	}
}

// isDetected runs a workload on a faulty store and reports whether the check finds an
// illegal history.
func isDetected(t *testing.T, h Harness, broken func(store.Store) store.Store) (illegal bool) {
	t.Helper()
	t.Run("round", func(t *testing.T) {
		w := newWorld(t, h)
		s := newWorkload(w, broken(w.s), 1)
		s.run(16, 3*time.Second)
		if s.err != nil {
			t.Fatalf("a call failed: %v", s.err)
		}
		_, verdict := s.check(5 * time.Second)
		illegal = verdict == porcupine.Illegal
	})
	return illegal
}

type appendAtHead struct{ store.Store }

func (m appendAtHead) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	head, err := m.Store.Append(ctx, at, b)
	if f, ok := errors.AsType[*store.FencedError](err); ok && !f.Status.Final() {
		return m.Store.Append(ctx, store.Position{RunID: at.RunID, Epoch: f.Epoch, After: f.Head}, b)
	}
	return head, err
}

type finishAtHead struct{ store.Store }

func (m finishAtHead) Finish(ctx context.Context, at store.Position, o store.Outcome) (store.Run, error) {
	r, err := m.Store.Finish(ctx, at, o)
	if f, ok := errors.AsType[*store.FencedError](err); ok && !f.Status.Final() {
		return m.Store.Finish(ctx, store.Position{RunID: at.RunID, Epoch: f.Epoch, After: f.Head}, o)
	}
	return r, err
}

type unconditionalAppend struct{ store.Store }

func (m unconditionalAppend) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	head, _, err := m.Head(ctx, at.RunID)
	if err != nil {
		return 0, err
	}
	at.After = head
	return m.Store.Append(ctx, at, b)
}

type uniqueTokens struct{ store.Store }

func (m uniqueTokens) Append(ctx context.Context, at store.Position, b store.Batch) (int64, error) {
	b.Token += time.Now().Format(time.StampNano)
	return m.Store.Append(ctx, at, b)
}

// lateCancel acknowledges each cancel at once, but writes it only at the next call of Cancel.
type lateCancel struct {
	store.Store
	mu  sync.Mutex // guards run
	run string     // ID of the run with a cancel that is not written yet
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

type falseCancel struct{ store.Store }

func (m falseCancel) Cancel(ctx context.Context, org, id string, at stint.Time) (store.Run, error) {
	r, err := m.Store.Cancel(ctx, org, id, at)
	if _, ended := errors.AsType[*store.StateError](err); ended {
		return m.Run(ctx, org, id)
	}
	return r, err
}

// staleHead answers every second call of Head for a run with the result of the call before.
type staleHead struct {
	store.Store
	seen sync.Map // cached headStatus by run ID
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

// endlessLease ignores EndWorker, so workers keep writing after their leases should have
// ended.
type endlessLease struct{ store.Store }

func (m endlessLease) EndWorker(context.Context, string) error { return nil }
