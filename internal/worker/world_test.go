package worker_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
	"github.com/stint-dev/stint/internal/worker"
	"github.com/stint-dev/stint/internal/worker/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxWait is the maximum duration of every wait in these tests. It is long, so that the
// tests do not fail on an overloaded host.
const maxWait = 2 * time.Minute

// world contains the services of a server and its worker. The fake sandboxes of the
// worker execute a script instead of commands.
type world struct {
	t       *testing.T
	store   store.Store
	runs    *runs.Service
	feed    *feed.Feed
	library *files.Library
	caller  auth.Caller
	ids     *stint.IDs
	local   *dispatch.Local
	dir     string
	worker  *worker.Worker
	stop    func() // stops the worker and waits for its end
}

type change func(*worker.Config)

func newWorld(t *testing.T, script fake.Script, changes ...change) *world {
	t.Helper()
	dir := t.TempDir()
	ids := stint.NewIDs(time.Now, rand.Reader)
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "stint.db"), sqlite.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	blobs, err := localfs.Open(filepath.Join(dir, "blobs"))
	check(t, err)
	library, err := files.New(blobs, files.Options{TempDir: t.TempDir(), IDs: ids})
	check(t, err)
	sealer, err := sealing.NewSealer(make([]byte, 32))
	check(t, err)
	bus := inproc.New()
	t.Cleanup(func() { check(t, bus.Close()) })
	f := feed.New(db, bus, false)
	local := dispatch.NewLocal(dispatch.Config{Store: db, Bus: bus, Feed: f, Sealer: sealer, Now: time.Now, Poll: 50 * time.Millisecond})
	w := &world{t: t, store: db, feed: f, library: library, ids: ids, local: local, dir: dir}
	w.runs = runs.New(runs.Config{Store: db, Dispatch: local, Bus: bus, Sealer: sealer, IDs: ids, Now: time.Now})
	member, err := db.EnsureMember(t.Context(), store.Member{OrgID: ids.New(stint.PrefixOrg), OrgName: "acme", UserID: ids.New(stint.PrefixUser), UserName: "ann", Role: "owner", CreatedAt: stint.TimeOf(time.Now())})
	check(t, err)
	w.caller = auth.Caller{OrgID: member.OrgID, UserID: member.UserID, UserName: "ann", Scopes: stint.Scopes}
	w.startWorker(script, dir, changes...)
	return w
}

// startWorker starts a worker that stores its files below dir. The worker is stopped
// when the test ends.
func (w *world) startWorker(script fake.Script, dir string, changes ...change) {
	w.t.Helper()
	c := worker.Config{
		Config: run.Config{
			Dispatcher: w.local, Driver: fake.New(script), Library: w.library, IDs: w.ids, Now: time.Now,
			CancelGrace: 200 * time.Millisecond, TimeoutGrace: 200 * time.Millisecond,
		},
		Dir: filepath.Join(dir, "worker"), Host: "host", Capacity: 8, Drain: maxWait,
	}
	for _, change := range changes {
		change(&c)
	}
	e, err := worker.New(w.t.Context(), c)
	check(w.t, err)
	w.worker = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			check(w.t, <-done)
		}
	}
	w.t.Cleanup(func() { w.stop() })
}

// agent stores an agent called "agent" with one version, which has the given definition.
func (w *world) agent(definition string) stint.Agent {
	w.t.Helper()
	now := stint.TimeOf(time.Now())
	a := store.Agent{OrgID: w.caller.OrgID, Agent: stint.Agent{ID: w.ids.New(stint.PrefixAgent), Name: "agent", CurrentVersionID: w.ids.New(stint.PrefixAgentVersion), CreatedAt: now, UpdatedAt: now}}
	v := store.AgentVersion{Digest: "d", CreatedBy: "user:ann", AgentVersion: stint.AgentVersion{ID: a.CurrentVersionID, AgentID: a.ID, VersionNumber: 1, CreatedAt: now, Definition: json.RawMessage(definition)}}
	check(w.t, w.store.CreateAgent(w.t.Context(), a, v))
	return a.Agent
}

func (w *world) create(n stint.NewRun) stint.Run {
	w.t.Helper()
	if n.Prompt == "" {
		n.Prompt = "do it"
	}
	r, err := w.runs.Create(w.t.Context(), w.caller, n, runs.CreateOptions{})
	check(w.t, err)
	return r
}

// ended waits for the end of a run and returns the ended run. If the run does not end
// within maxWait, the test fails.
func (w *world) ended(id string) stint.Run {
	w.t.Helper()
	r, err := w.runs.Wait(w.t.Context(), w.caller, id, maxWait)
	check(w.t, err)
	if !r.Status.Final() {
		w.t.Fatalf("run is %s after %s", r.Status, maxWait)
	}
	return r
}

// transcript returns the concatenated output of a run.
func (w *world) transcript(id string) string {
	w.t.Helper()
	var b strings.Builder
	for _, e := range w.events(id) {
		if e.Type == stint.EventOutput {
			var o stint.OutputData
			check(w.t, json.Unmarshal(e.Data, &o))
			b.WriteString(o.Content)
		}
	}
	return b.String()
}

func (w *world) events(id string) []stint.Event {
	w.t.Helper()
	events, _, err := w.feed.Events(w.t.Context(), id, 0, 100_000)
	check(w.t, err)
	return events
}

// until waits until ok returns true. If ok does not return true within maxWait, the test
// fails, and the message contains what, a description of the condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(maxWait)
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("timed out waiting for: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		panic(err)
	}
}
