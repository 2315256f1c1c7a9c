package runs_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cancellingStore cancels the caller's context during each write.
type cancellingStore struct {
	store.Store
	cancel  atomic.Value // context.CancelFunc
	before  func()       // called before a run is created; can be nil
	claimed atomic.Bool  // whether the last run was created with a claim request
}

// cancelCaller cancels the caller's context and returns the error of ctx. The error must
// be nil, because the write must not end with the caller's context.
func (s *cancellingStore) cancelCaller(ctx context.Context) error {
	s.cancel.Load().(context.CancelFunc)()
	return ctx.Err()
}

func (s *cancellingStore) CreateRun(ctx context.Context, n store.NewRun, c *store.ClaimRequest) ([]store.Claim, error) {
	s.claimed.Store(c != nil)
	if s.before != nil {
		s.before()
	}
	claims, err := s.Store.CreateRun(ctx, n, c)
	if err := s.cancelCaller(ctx); err != nil {
		return nil, err
	}
	return claims, err
}

func (s *cancellingStore) Cancel(ctx context.Context, org, id string, at stint.Time) (store.Run, error) {
	r, err := s.Store.Cancel(ctx, org, id, at)
	if err := s.cancelCaller(ctx); err != nil {
		return store.Run{}, err
	}
	return r, err
}

type world struct {
	*testing.T
	store  *cancellingStore
	local  *dispatch.Local
	runs   *runs.Service
	ids    *stint.IDs
	caller auth.Caller
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	sealer, err := sealing.NewSealer(make([]byte, 32))
	check(t, err)
	w := &world{T: t, store: &cancellingStore{Store: db}, ids: stint.NewIDs(time.Now, rand.Reader)}
	bus := inproc.New()
	w.local = dispatch.NewLocal(dispatch.Config{Store: w.store, Bus: bus, Feed: feed.New(db, bus, false), Sealer: sealer, Now: time.Now, Poll: time.Hour})
	w.runs = runs.New(runs.Config{Store: w.store, Dispatch: w.local, Bus: bus, Sealer: sealer, IDs: w.ids, Now: time.Now})
	now := stint.TimeOf(time.Now())
	m, err := db.EnsureMember(t.Context(), store.Member{OrgID: w.ids.New(stint.PrefixOrg), OrgName: "acme", UserID: w.ids.New(stint.PrefixUser), UserName: "ann", Role: "owner", CreatedAt: now})
	check(t, err)
	w.caller = auth.Caller{OrgID: m.OrgID, UserID: m.UserID, UserName: "ann", Scopes: stint.Scopes}
	a := store.Agent{OrgID: m.OrgID, Agent: stint.Agent{ID: w.ids.New(stint.PrefixAgent), Name: "bee", CurrentVersionID: w.ids.New(stint.PrefixAgentVersion), CreatedAt: now, UpdatedAt: now}}
	check(t, db.CreateAgent(t.Context(), a, store.AgentVersion{
		Digest: "d", CreatedBy: "user:ann",
		AgentVersion: stint.AgentVersion{ID: a.CurrentVersionID, AgentID: a.ID, VersionNumber: 1, CreatedAt: now, Definition: json.RawMessage(`{"framework":"shell","command":["true"]}`)},
	}))
	return w
}

// create creates a run with a context that ends while the run is stored.
func (w *world) create() stint.Run {
	w.Helper()
	r, err := w.runs.Create(w.cancelledContext(), w.caller, stint.NewRun{Agent: "bee", Prompt: "hum"}, runs.CreateOptions{})
	check(w, err)
	return r
}

// cancelledContext returns a context that ends during the next write.
func (w *world) cancelledContext() context.Context {
	ctx, cancel := context.WithCancel(w.Context())
	w.store.cancel.Store(cancel)
	return ctx
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCreateAssignsRunAfterCallerLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		worker := store.Worker{ID: w.ids.New(stint.PrefixWorker), Host: "here", Capacity: 1, CreatedAt: stint.TimeOf(time.Now())}
		_, err := w.local.Register(t.Context(), worker)
		check(t, err)
		type next struct {
			assigned []dispatch.Assignment
			err      error
		}
		results := make(chan next, 1)
		go func() {
			list, err := w.local.Next(t.Context(), worker.ID, 1)
			results <- next{list, err}
		}()
		synctest.Wait() // until the worker is idle
		r := w.create()
		if !w.store.claimed.Load() {
			t.Error("the run was created without a claim for the idle worker")
		}
		synctest.Wait()
		select {
		case got := <-results:
			if len(got.assigned) != 1 || got.assigned[0].Run.ID != r.ID || got.err != nil {
				t.Errorf("%v was assigned, want %s: %v", got.assigned, r.ID, got.err)
			}
		default:
			t.Fatalf("%s was not assigned", r.ID)
		}
	})
}

func TestCancelNotifiesWorkerAfterCallerLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.create()
	stopped, cancel := w.local.WatchStop(r.ID)
	defer cancel()
	got, err := w.runs.Cancel(w.cancelledContext(), w.caller, r.ID)
	if err != nil || got.Status != stint.Cancelled {
		t.Errorf("Cancel returned %s, %v", got.Status, err)
	}
	select {
	case <-stopped:
	default:
		t.Error("the worker was not notified")
	}
}

func TestCreateWithVersionDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := stint.TimeOf(time.Now())
	tree := store.FileSet{OrgID: w.caller.OrgID, FileSet: stint.FileSet{ID: w.ids.New(stint.PrefixVolume), Name: "data", Kind: stint.Volumes, CreatedAt: now, UpdatedAt: now}}
	check(t, w.store.CreateFileSet(t.Context(), tree))
	for _, word := range []string{"aa", "bb"} {
		_, _, err := w.store.CommitVersion(t.Context(), store.Commit{OrgID: tree.OrgID, FileSetID: tree.ID, Suffix: strings.Repeat(word, 10), Digest: word, CreatedAt: now})
		check(t, err)
	}
	old := stint.FormatVersionID(1, strings.Repeat("a", 20))
	w.store.before = func() { check(t, w.store.DeleteVersion(t.Context(), tree.OrgID, tree.ID, old)) }
	_, err := w.runs.Create(w.cancelledContext(), w.caller, stint.NewRun{Agent: "bee", Prompt: "hum", Volumes: map[string]string{"data": "v1"}}, runs.CreateOptions{})
	if stint.KindOf(err) != stint.KindNotFound {
		t.Errorf("Create returned %v", err)
	}
}
