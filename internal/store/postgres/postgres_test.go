package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/postgres"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// queryColumn returns the values of a query with one column.
func queryColumn[T any](t testing.TB, url, query string, args ...any) []T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConcurrentOpenMigratesOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var servers sync.WaitGroup
	for range 6 {
		servers.Go(func() {
			s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.DiscardHandler), MaxConns: 3})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	servers.Wait()
	applied := queryColumn[int64](t, url, `select version_id from goose_db_version where version_id > 0`)
	migrations, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(migrations) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	want := make([]int64, len(migrations))
	for i, name := range migrations {
		if want[i], err = strconv.ParseInt(filepath.Base(name)[:5], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, applied); diff != "" {
		t.Error(diff)
	}
	if held := queryColumn[int64](t, url, `select count(*) from pg_locks
		where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`); held[0] != 0 {
		t.Errorf("%d advisory locks are left", held[0])
	}
}

func TestOpenErrorHidesPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://user:hunter2@host:port/db", "postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=1"} {
		_, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open returned %v", err)
		}
	}
}

func TestJournalIsPartitionedByMonth(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t))
	at := sqltest.StartRuns(t, s, 1)[0]
	b := sqltest.Batch("x")
	b.Logs = []stint.LogEntry{sqltest.Entry("y")}
	if _, err := s.Append(t.Context(), at, b); err != nil {
		t.Fatal(err)
	}
	month := time.Now().UTC().Format("_2006_01")
	for _, table := range []string{"journal", "log_entries"} {
		got := queryColumn[string](t, s.url, `select distinct tableoid::regclass::text from `+table)
		if diff := cmp.Diff([]string{table + month}, got); diff != "" {
			t.Error(diff)
		}
	}
	partitions := func() int64 {
		return queryColumn[int64](t, s.url, `select count(*) from pg_inherits where inhparent = 'journal'::regclass`)[0]
	}
	before := partitions()
	now := time.Now().UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC) // AddDate(0, 1, 0) on the 31st could skip a month
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if err := s.EnsurePartitions(t.Context(), next); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if after := partitions(); after != before+1 {
		t.Errorf("%d partitions became %d, want one more", before, after)
	}
}

func TestLatePartitionLosesNoData(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t))
	future := time.Date(2091, 6, 15, 0, 0, 0, 0, time.UTC)
	n := sqltest.NewRun(0)
	n.ID = stint.PrefixRun + stint.ULIDAt(future)
	if _, err := s.CreateRun(t.Context(), n, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.EnsurePartitions(t.Context(), future); err != nil {
		t.Fatal(err)
	}
	if events, err := s.Events(t.Context(), n.ID, 0, 10); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	if got := queryColumn[bool](t, s.url, `select to_regclass('journal_2091_07') is not null and to_regclass('journal_2091_06') is null`); !got[0] {
		t.Error("the next month has no partition, or the late one was attached")
	}
}

// TestCountersMatchRows checks that the counters of running and ready runs agree with the
// rows after concurrent transitions of all kinds.
func TestCountersMatchRows(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t))
	at := stint.TimeOf(time.Now())
	runs := sqltest.StartRuns(t, s, 48)
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			for k, p := range runs[8*i : 8*i+8] {
				switch k % 4 {
				case 0:
					if _, err := s.Finish(t.Context(), p, store.Outcome{Token: "x", Status: stint.Completed, At: at}); err != nil {
						t.Error(err)
					}
				case 1:
					if _, err := s.Cancel(t.Context(), sqltest.Org, p.RunID, at); err != nil {
						t.Error(err)
					}
				case 2:
					if _, err := s.CreateRun(t.Context(), sqltest.NewRun(i), nil); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.Reap(t.Context(), at, 10); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	if _, err := s.Reap(t.Context(), at, 10); err != nil {
		t.Fatal(err)
	}
	const counted = `select format('%s: %s running, %s ready', agent_id, running, ready) from load order by agent_id`
	const actual = `select format('%s: %s running, %s ready', agent, count(*) filter (where status = 'running'), count(*) filter (where status = 'pending'))
		from (select agent_id as agent, status from runs union all select '', status from runs) r group by agent order by agent`
	if diff := cmp.Diff(queryColumn[string](t, s.url, actual), queryColumn[string](t, s.url, counted)); diff != "" {
		t.Error(diff)
	}
	if left := queryColumn[int64](t, s.url, `select count(*) from load_changes`); left[0] != 0 {
		t.Errorf("%d changes were not applied", left[0])
	}
}

// TestFailedAppendDoesNotAffectOthers checks that appends succeed if the database refuses
// another append in the same statement.
func TestFailedAppendDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t))
	runs := sqltest.StartRuns(t, s, 24)
	var callers sync.WaitGroup
	for i, at := range runs {
		callers.Go(func() {
			for k := range 20 {
				if i%4 == 3 { // the database refuses a parameter with a zero byte
					_, err := s.Append(t.Context(), store.Position{RunID: "run_\x00", Epoch: 1, After: 1}, sqltest.Batch("x"))
					if err == nil {
						t.Error("an append to a run that does not exist succeeded")
					}
					if err := sqltest.CreateDuplicate(t, s, at.RunID); err == nil {
						t.Error("a run was stored twice")
					}
					continue
				}
				b := sqltest.Batch(fmt.Sprint(i, k))
				b.Logs = []stint.LogEntry{sqltest.Entry("x")}[:k%2]
				head, err := s.Append(t.Context(), at, b)
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				at.After = head
			}
		})
	}
	callers.Wait()
	for i, at := range runs {
		want := int64(22)
		if i%4 == 3 {
			want = 2
		}
		if head, _, err := s.Head(t.Context(), at.RunID); err != nil || head != want {
			t.Errorf("run %d: head %d, want %d, %v", i, head, want, err)
		}
	}
}

// TestAppendsToOneRunKeepOrder checks that two batches of one run are stored in the order
// of their positions, even if they are part of the same group commit.
func TestAppendsToOneRunKeepOrder(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t))
	at := sqltest.StartRuns(t, s, 1)[0]
	first, second := sqltest.Batch("one"), sqltest.Batch("two")
	limit := time.Now().Add(2 * time.Minute)
	var callers sync.WaitGroup
	for i, b := range []store.Batch{first, second} {
		callers.Go(func() {
			at := at
			at.After += int64(i)
			for {
				_, err := s.Append(t.Context(), at, b)
				if err == nil {
					return
				}
				if time.Now().After(limit) {
					t.Errorf("batch %d: %v", i, err)
					return
				}
			}
		})
	}
	callers.Wait()
	events, err := s.Events(t.Context(), at.RunID, 2, 10)
	if err != nil || len(events) != 2 || !strings.Contains(string(events[0].Data), "one") {
		t.Errorf("events %v, %v", events, err)
	}
}

// TestCrash repeatedly crashes the database server while many writers append. It checks that
// all acknowledged events are stored and that the positions have no gap.
func TestCrash(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, "")
	s := open(t, c.URL("postgres"))
	runs := sqltest.StartRuns(t, s, 16)
	for crash := range 3 {
		enough := make(chan struct{}, 1000)
		var writers sync.WaitGroup
		for i := range runs {
			writers.Go(func() { runs[i] = appendUntilError(t, s, runs[i], enough) })
		}
		for range 300 {
			<-enough
		}
		if err := c.StopImmediate(); err != nil {
			t.Fatal(err)
		}
		writers.Wait()
		for _, err := range []error{s.Ping(t.Context()), second(s.Run(t.Context(), "org", "run"))} {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("while the server is down: %v", err)
			}
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for i, at := range runs {
			events := eventsAfterRestart(t, s, at.RunID)
			head := int64(len(events))
			if head < at.After || head > at.After+2 {
				t.Errorf("crash %d: run %s has %d events, %d were acknowledged", crash, at.RunID, head, at.After)
			}
			if head > 0 && events[head-1].Seq != head {
				t.Errorf("crash %d: run %s has a gap", crash, at.RunID)
			}
			runs[i].After = head // a retry of the unacknowledged append would return the same position
		}
	}
}

func second[T any](_ T, err error) error { return err }

func appendUntilError(t *testing.T, s store.Store, at store.Position, enough chan<- struct{}) store.Position {
	for {
		head, err := s.Append(t.Context(), at, sqltest.Batch("x", "y"))
		if err != nil {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("while the server is down: %v", err)
			}
			return at
		}
		at.After = head
		select {
		case enough <- struct{}{}:
		default:
		}
	}
}

// eventsAfterRestart returns the events of a run. It retries for at most two minutes,
// because the restart broke the connections in the pool.
func eventsAfterRestart(t *testing.T, s store.Store, run string) []stint.Event {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		events, err := s.Events(t.Context(), run, 0, 1<<30)
		if err == nil {
			return events
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
}
