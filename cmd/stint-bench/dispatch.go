package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/notify/pgnotify"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/postgres"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

// world is a server in this process. The benchmark takes the place of its worker, to
// measure operations that the API does not offer: a claim, an append, and the wake-up
// of a worker.
type world struct {
	store    store.Store
	bus      notify.Bus
	dispatch *dispatch.Local
	runs     *runs.Service
	feed     *feed.Feed
	handler  http.Handler
	caller   auth.Caller
	token    string
	worker   string
}

// openWorld returns a world with a new organisation, agent, and worker in its database,
// which is the PostgreSQL database at dsn or, if dsn is empty, SQLite in dir. The
// handler's event streams end when ctx ends.
func openWorld(ctx context.Context, dir, dsn string) *world {
	w, quiet := &world{bus: inproc.New()}, slog.New(slog.DiscardHandler)
	if dsn == "" {
		w.store = must(sqlite.Open(ctx, filepath.Join(dir, "stint.db"), sqlite.Options{Logger: quiet}))
	} else {
		w.store = must(postgres.Open(ctx, dsn, postgres.Options{Logger: quiet}))
		w.bus = must(pgnotify.New(ctx, dsn, quiet))
	}
	key, ids := make([]byte, sealing.KeySize), stint.NewIDs(time.Now, rand.Reader)
	must(rand.Read(key))
	sealer := must(sealing.NewSealer(key))
	w.feed = feed.New(w.store, w.bus, dsn != "")
	w.dispatch = dispatch.NewLocal(dispatch.Config{
		Store: w.store, Bus: w.bus, Feed: w.feed, Sealer: sealer, Now: time.Now, Logger: quiet, Lease: time.Hour, // the benchmark sends no heartbeats
	})
	w.runs = runs.New(runs.Config{Store: w.store, Dispatch: w.dispatch, Bus: w.bus, Sealer: sealer, IDs: ids, Now: time.Now})
	access := auth.New(auth.Config{Store: w.store, IDs: ids, Now: time.Now, Key: key, Runs: w.store})
	w.handler = api.New(api.Config{Auth: access, Runs: w.runs, Feed: w.feed, Idempotency: w.store, Stop: ctx})
	w.token = must(access.Login(ctx, "bench", "bench", stint.NewToken{Name: "bench"})).Secret
	w.caller = must(access.Authenticate(ctx, w.token))
	must(agents.New(agents.Config{Store: w.store, IDs: ids}).Create(ctx, w.caller, []byte(agentDefinition)))
	w.worker = ids.New(stint.PrefixWorker)
	must(w.dispatch.Register(ctx, store.Worker{ID: w.worker, Host: "bench", Capacity: 1 << 20, CreatedAt: stint.TimeOf(time.Now())}))
	return w
}

func (w *world) close() error { return errors.Join(w.bus.Close(), w.store.Close()) }

// world opens a world on the scenario's database. It is closed after the scenario.
func (l *lab) world(ctx context.Context) *world {
	w := openWorld(ctx, l.folder(), l.dsn)
	l.cleanup(w.close)
	return w
}

// commit returns how long the smallest commit of the database takes.
func (w *world) commit(ctx context.Context) time.Duration {
	return timed(func() { check(w.store.Ping(ctx)) })
}

func (w *world) create(ctx context.Context) {
	must(w.runs.Create(ctx, w.caller, stint.NewRun{Agent: agentName, Prompt: "true"}, runs.CreateOptions{}))
}

// claimRuns creates n runs, claims them, and returns the position after which the
// worker appends to each.
func (w *world) claimRuns(ctx context.Context, n int) (positions []store.Position) {
	var created atomic.Int64
	concurrently(ctx, min(n, 64), func(ctx context.Context, _ int) {
		for created.Add(1) <= int64(n) {
			w.create(ctx)
		}
	})
	for len(positions) < n {
		for _, a := range must(w.dispatch.Next(ctx, w.worker, min(500, n-len(positions)))) {
			check(a.Err)
			positions = append(positions, a.Position)
		}
	}
	return positions
}

// append appends the given number of events, with size bytes of data each, to a run in
// one call, and moves the position at to the last of them.
func (w *world) append(ctx context.Context, at *store.Position, events, size int) {
	b := store.Batch{Token: fmt.Sprintf("%s-%d", at.RunID, at.After), Events: make([]stint.Event, events)}
	for i := range b.Events {
		b.Events[i] = output(size)
	}
	at.After = must(w.dispatch.Append(ctx, *at, b))
}

// output returns an event with size bytes of data. The data contains the mark and the
// time of the event's creation.
func output(size int) stint.Event {
	const end = `","stream":"stdout"}`
	now := time.Now()
	data := fmt.Appendf(make([]byte, 0, size), `{"content":"%c%0*d;`, mark, momentBytes, now.UnixNano())
	for len(data) < size-len(end) {
		data = append(data, 'x')
	}
	return stint.Event{Type: stint.EventOutput, At: stint.TimeOf(now), Data: append(data, end...)}
}

const anchorCommit = "one commit of the database"

// claim measures the time from the creation of a run until an idle worker has claimed
// it. At the end of this time, both the creation and the claim are durable.
func (l *lab) claim(ctx context.Context) {
	w := l.world(ctx)
	took := inTurn(ctx, warmUps, l.samples, w.commit, w.createAndClaim)
	commit := latency(took[0])
	row := compare("create → claimed, idle worker", latency(took[1]), anchorCommit, commit)
	l.add(row, atMost("", row.Ratio, 1.5, "×"))
	l.add(compare(anchorCommit, commit, anchorDurable, l.durableWrites(ctx)))
}

func (w *world) createAndClaim(ctx context.Context) time.Duration {
	claimed, failed := make(chan time.Time, 1), make(chan error, 1)
	go func() {
		_, err := w.dispatch.Next(ctx, w.worker, 1)
		claimed <- time.Now()
		failed <- err
	}()
	time.Sleep(3 * time.Millisecond) // let the worker begin to wait
	start := time.Now()
	w.create(ctx)
	took := (<-claimed).Sub(start)
	check(<-failed)
	return took
}

// cancel measures the time from the cancel of a running run until its worker is woken.
// At the end of this time, the cancel is durable.
func (l *lab) cancel(ctx context.Context) {
	w := l.world(ctx)
	held := w.claimRuns(ctx, l.samples)
	took := inTurn(ctx, 0, len(held), w.commit, func(ctx context.Context) time.Duration {
		run := held[0].RunID
		held = held[1:]
		wake, stop := w.dispatch.WatchStop(run)
		defer stop()
		woken := make(chan time.Time)
		go func() {
			select {
			case <-wake:
			case <-ctx.Done():
			}
			woken <- time.Now()
		}()
		start := time.Now()
		must(w.runs.Cancel(ctx, w.caller, run))
		return (<-woken).Sub(start)
	})
	m := latency(took[1])
	l.add(compare("cancel → worker woken", m, anchorCommit, latency(took[0])), atMost("p99", m.P99Ms, 5, "ms"))
}

// journal measures the events per second that 64 workers append, each to its own run,
// with 1 and with 16 events per append. The anchor is 64 writers of one file.
func (l *lab) journal(ctx context.Context) {
	const writers, size = 64, 256
	w := l.world(ctx)
	at := w.claimRuns(ctx, writers)
	for _, c := range []struct {
		pack int
		goal float64
	}{{1, 0.3}, {16, 1.5}} {
		appends := loopRate(writers, l.each/2, func(ctx context.Context, i int) { w.append(ctx, &at[i], c.pack, size) })
		row := compareRates(ctx, fmt.Sprintf("durable events, %d writers, %d an append", writers, c.pack),
			func(ctx context.Context) float64 { return appends(ctx) * float64(c.pack) },
			"file with group fdatasync", l.groupAppends(writers, size))
		l.add(row, atLeast("", row.Ratio, c.goal, "×"))
	}
}
