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

// hanging is a store that never answers.
type hanging struct{ store.Store }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Append(ctx context.Context, _ store.Position, _ store.Batch) (int64, error) {
	return 0, hang(ctx)
}

func (hanging) Finish(ctx context.Context, _ store.Position, _ store.Outcome) (store.Run, error) {
	return store.Run{}, hang(ctx)
}

func (hanging) AddCheckpoint(ctx context.Context, _ store.Position, _ *store.RunVersion, _ store.Checkpoint) (store.Run, error) {
	return store.Run{}, hang(ctx)
}

func (hanging) Claim(context.Context, store.ClaimRequest) ([]store.Claim, error) {
	return []store.Claim{{Run: store.Run{Spec: []byte(`{}`)}}}, nil
}

func (hanging) Secrets(ctx context.Context, _ string) ([]store.Secret, error) {
	return nil, hang(ctx)
}

// TestAStoreThatHangsIsGivenUp: nobody's stop waits for it for ever.
func TestAStoreThatHangsIsGivenUp(t *testing.T) {
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
		"keep": func(ctx context.Context, l *dispatch.Local) error {
			return l.AddCheckpoint(ctx, at, nil, store.Checkpoint{})
		},
		"next": func(ctx context.Context, l *dispatch.Local) error {
			given, err := l.Next(ctx, "worker", 1)
			if len(given) != 1 {
				return err
			}
			return given[0].Err // what was claimed is given, to be ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bus := inproc.New()
				l := dispatch.NewLocal(dispatch.Config{Store: hanging{}, Bus: bus, Feed: feed.New(hanging{}, bus, false), Now: time.Now})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := call(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it ends with %v", err)
				}
				if ctx.Err() != nil {
					t.Error("it waits for as long as its caller")
				}
				if err := bus.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAnEndOfWhichNothingWasHeardIsLookedFor: it may stand in the store.
func TestAnEndOfWhichNothingWasHeardIsLookedFor(t *testing.T) {
	t.Parallel()
	bus := inproc.New()
	l := dispatch.NewLocal(dispatch.Config{Store: hanging{}, Bus: bus, Feed: feed.New(hanging{}, bus, false), Now: time.Now})
	told, stop := l.WatchStop("run")
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Finish(ctx, store.Position{RunID: "run", Epoch: 1, After: 2}, store.Outcome{Token: "finish"}); err == nil {
		t.Error("it finished")
	}
	select {
	case <-told:
	default:
		t.Error("nobody looks")
	}
}
