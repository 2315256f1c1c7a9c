package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// interruptedStore is a store that cancels its caller after a commit, before the call
// returns.
type interruptedStore struct {
	store.Store
	cancel func()
	after  error // if set, calls return this error although they committed
}

func (s *interruptedStore) settle(ctx context.Context) error {
	s.cancel()
	return errors.Join(ctx.Err(), s.after)
}

func (s *interruptedStore) Claim(ctx context.Context, c store.ClaimRequest) ([]store.Claim, error) {
	claims, err := s.Store.Claim(ctx, c)
	if failed := s.settle(ctx); failed != nil {
		return nil, failed
	}
	return claims, err
}

func (s *interruptedStore) Reap(ctx context.Context, at stint.Time, n int) ([]string, error) {
	ids, err := s.Store.Reap(ctx, at, n)
	return ids, errors.Join(err, s.settle(ctx))
}

func (s *interruptedStore) Expire(ctx context.Context, before, at stint.Time, n int) ([]string, error) {
	ids, err := s.Store.Expire(ctx, before, at, n)
	return ids, errors.Join(err, s.settle(ctx))
}

type world struct {
	*testing.T
	store *interruptedStore
	local *dispatch.Local
	ctx   context.Context // the context of the caller, which store cancels
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	sealer, err := sealing.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := &interruptedStore{Store: db, cancel: cancel}
	bus := inproc.New()
	return &world{T: t, ctx: ctx, store: s, local: dispatch.NewLocal(dispatch.Config{
		Store: s, Bus: bus, Feed: feed.New(db, bus, false), Sealer: sealer, Now: time.Now, Poll: time.Hour,
	})}
}

// create stores a pending run without the dispatcher.
func (w *world) create() string {
	w.Helper()
	n := sqltest.NewRun(1)
	if _, err := w.store.CreateRun(w.Context(), n, nil); err != nil {
		w.Fatal(err)
	}
	return n.ID
}

func (w *world) status(id string) stint.Status {
	w.Helper()
	status, _, err := w.store.RunState(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return status
}

func TestNextReturnsClaimsAfterCancellation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create()
	got, err := w.local.Next(w.ctx, sqltest.Worker(t, w.store), 1)
	if len(got) != 1 || got[0].Run.ID != id {
		t.Errorf("Next returned %d assignments and %v; the run is %s", len(got), err, w.status(id))
	}
	if got, err := w.local.Next(w.ctx, sqltest.Worker(t, w.store), 1); len(got) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller received %d assignments, %v", len(got), err)
	}
}

// TestEndsNotify checks that watchers are notified of ended runs even if the caller is
// cancelled or the call fails after the commit.
func TestEndsNotify(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world) (int, error){
		"reap": func(w *world) (int, error) {
			claims, err := w.store.Store.Claim(w.Context(), store.ClaimRequest{WorkerID: sqltest.Worker(w, w.store), Max: 1, At: stint.TimeOf(time.Now())})
			if err != nil || len(claims) != 1 {
				w.Fatalf("%d claims, %v", len(claims), err)
			}
			if err := w.store.EndWorker(w.Context(), claims[0].Run.WorkerID); err != nil {
				w.Fatal(err)
			}
			return w.local.Reap(w.ctx)
		},
		"expire": func(w *world) (int, error) {
			return w.local.Expire(w.ctx, stint.TimeOf(time.Now().Add(time.Hour)))
		},
	} {
		for _, after := range []error{nil, errors.New("the disk is full")} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.store.after = after
				id := w.create()
				wake, cancel := w.local.WatchStop(id)
				defer cancel()
				n, err := end(w)
				if n != 1 || !errors.Is(err, after) {
					t.Errorf("%d ended, error %v; want 1 and %v", n, err, after)
				}
				select {
				case <-wake:
				default:
					t.Errorf("the watcher was not notified; the run is %s", w.status(id))
				}
			})
		}
	}
}
