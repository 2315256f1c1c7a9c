package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/store"
)

// hangingStore is a store in which Claim returns one run, and all other calls wait until
// their context ends.
type hangingStore struct{ store.Store }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hangingStore) Append(ctx context.Context, _ store.Position, _ store.Batch) (int64, error) {
	return 0, hang(ctx)
}

func (hangingStore) Finish(ctx context.Context, _ store.Position, _ store.Outcome) (store.Run, error) {
	return store.Run{}, hang(ctx)
}

func (hangingStore) AddCheckpoint(ctx context.Context, _ store.Position, _ *store.RunVersion, _ store.Checkpoint) (store.Run, error) {
	return store.Run{}, hang(ctx)
}

func (hangingStore) Claim(context.Context, store.ClaimRequest) ([]store.Claim, error) {
	return []store.Claim{{Run: store.Run{Spec: []byte(`{"definition":{"secrets":{"KEY":{}}}}`)}}}, nil
}

func (hangingStore) Secrets(ctx context.Context, _ string) ([]store.Secret, error) {
	return nil, hang(ctx)
}

// TestCallsEndIfStoreHangs checks that calls have their own time limit: if the store hangs,
// they return before the context of their caller ends.
func TestCallsEndIfStoreHangs(t *testing.T) {
	t.Parallel()
	at := store.Position{RunID: "run", Epoch: 1, After: 2}
	for name, call := range map[string]func(context.Context, *dispatch.Local) error{
		"append": func(ctx context.Context, l *dispatch.Local) error {
			_, err := l.Append(ctx, at, store.Batch{Token: "1", Events: make([]stint.Event, 1)})
			return err
		},
		"finish": func(ctx context.Context, l *dispatch.Local) error {
			_, err := l.Finish(ctx, at, store.Outcome{Token: "finish", Status: stint.Completed})
			return err
		},
		"add checkpoint": func(ctx context.Context, l *dispatch.Local) error {
			return l.AddCheckpoint(ctx, at, nil, store.Checkpoint{})
		},
		"next": func(ctx context.Context, l *dispatch.Local) error {
			assignments, err := l.Next(ctx, "worker", 1)
			if len(assignments) != 1 {
				return err
			}
			return assignments[0].Err // with this error, the worker ends the claimed run
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bus := inproc.New()
				l := dispatch.NewLocal(dispatch.Config{Store: hangingStore{}, Bus: bus, Feed: feed.New(hangingStore{}, bus, false), Now: time.Now})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := call(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				if ctx.Err() != nil {
					t.Error("the call waited for its caller's context")
				}
				if err := bus.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestUnconfirmedFinishNotifies checks that watchers are notified after a Finish that
// may have been committed.
func TestUnconfirmedFinishNotifies(t *testing.T) {
	t.Parallel()
	bus := inproc.New()
	l := dispatch.NewLocal(dispatch.Config{Store: hangingStore{}, Bus: bus, Feed: feed.New(hangingStore{}, bus, false), Now: time.Now})
	wake, stop := l.WatchStop("run")
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Finish(ctx, store.Position{RunID: "run", Epoch: 1, After: 2}, store.Outcome{Token: "finish"}); err == nil {
		t.Error("Finish succeeded")
	}
	select {
	case <-wake:
	default:
		t.Error("the watcher was not notified")
	}
}
