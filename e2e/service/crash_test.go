package service_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/apitest"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// crashPlan is the number of crashes of a test, and the number of runs that are created
// before each crash.
type crashPlan struct{ crashes, runs int }

// TestKill9 kills the server repeatedly while runs write output, and checks that
// clients receive exactly the events in the journals.
func TestKill9(t *testing.T) { kill9(t, crashPlan{6, 50}) }

func TestSoakKill9(t *testing.T) { kill9(t, crashPlan{20, 50}) }

func kill9(t *testing.T, p crashPlan) {
	h := installation.New(t)
	h.Start()
	crashRepeatedly(t, h, p, func(int) { h.Stop(syscall.SIGKILL) })
	h.Stop(syscall.SIGTERM)
	checkIntegrity(t, filepath.Join(h.Data, "stint.db"))
}

// TestKill9PostgreSQL is TestKill9 with PostgreSQL. In every second round, PostgreSQL
// crashes, too.
func TestKill9PostgreSQL(t *testing.T) { kill9PostgreSQL(t, crashPlan{4, 50}) }

func TestSoakKill9PostgreSQL(t *testing.T) { kill9PostgreSQL(t, crashPlan{10, 50}) }

func kill9PostgreSQL(t *testing.T, p crashPlan) {
	cluster := pgtest.NewCluster(t, "")
	installation.Check(t, cluster.CreateDatabase(t.Context(), "stint"))
	h := installation.New(t, "--database", cluster.URL("stint"))
	h.Start()
	crashRepeatedly(t, h, p, func(round int) {
		if round%2 == 1 {
			installation.Check(t, cluster.StopImmediate())
			h.Stop(syscall.SIGKILL)
			installation.Check(t, cluster.Start())
			return
		}
		h.Stop(syscall.SIGKILL)
	})
}

func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	installation.Check(t, err)
	defer db.Close()
	var answer string
	installation.Check(t, db.QueryRow("pragma integrity_check").Scan(&answer))
	if answer != "ok" {
		t.Errorf("integrity check: %s", answer)
	}
}

// crashRepeatedly repeats the following once per crash of the plan: it creates runs,
// calls kill while they write output, starts the server again, and checks the runs. It
// fails the test unless some runs completed and some were lost.
func crashRepeatedly(t *testing.T, h *installation.Host, p crashPlan, kill func(round int)) {
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	completed, lost := 0, 0
	for round := range p.crashes {
		done, gone := crash(t, h, c, round, p.runs, kill)
		completed, lost = completed+done, lost+gone
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if completed == 0 || lost == 0 {
		t.Errorf("%d runs completed and %d were lost", completed, lost)
	}
}

const (
	talkative = `for i in $(seq 1 40); do echo "line $i of $STINT_RUN_ID"; sleep 0.03; done`
	endless   = `echo "$STINT_RUN_ID begins"; sleep 600`
)

// In the first two rounds, the state of the first run at the kill does not depend on
// the speed of the machine: the run has ended in round roundAfterEnd, and has started
// and does not end in round roundWhileRunning.
const (
	roundAfterEnd = iota
	roundWhileRunning
)

// script returns the prompt of the ith run of a round.
func script(round, i int) string {
	if round == roundWhileRunning && i == 0 {
		return endless
	}
	return talkative
}

// awaitKillTime waits for the time at which the server is to be killed. In the first
// two rounds, it waits for the state of the first run; in later rounds, for a random
// time.
func awaitKillTime(t *testing.T, c *client.Client, round int, ids []string) {
	t.Helper()
	switch round {
	case roundAfterEnd:
		installation.Ended(t, c, ids[0])
	case roundWhileRunning:
		awaitOutput(t, c, ids[0])
	default:
		<-time.After(time.Duration(200+rand.IntN(3500)) * time.Millisecond)
	}
}

// awaitOutput waits for the first output of a run. It ends the test if the run ends
// without output.
func awaitOutput(t *testing.T, c *client.Client, id string) {
	t.Helper()
	for e, err := range c.Runs.Events(t.Context(), id, 0) {
		installation.Check(t, err)
		if e.Type == stint.EventOutput {
			return
		}
	}
	t.Fatalf("%s ended without output", id)
}

func crash(t *testing.T, h *installation.Host, c *client.Client, round, runs int, kill func(round int)) (completed, lost int) {
	seen := newObserver()
	ids := make([]string, runs)
	var followers sync.WaitGroup
	for i := range ids {
		ids[i] = installation.Create(t, c, stint.NewRun{Prompt: script(round, i)}).ID
		followers.Go(func() { seen.follow(apitest.AllowFailure(t.Context()), c, ids[i]) }) // requests may fail while the database is unavailable
	}
	awaitKillTime(t, c, round, ids)
	kill(round)
	h.Start()
	followers.Wait()
	for _, id := range ids {
		r := installation.Ended(t, c, id)
		if isCompleted(t, r) {
			completed++
		} else {
			lost++
		}
		seen.compare(t, c, id)
	}
	if left := h.Leftovers(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	return completed, lost
}

// isCompleted reports whether a run completed. It fails the test if the run neither
// completed nor failed with the reason worker_lost.
func isCompleted(t *testing.T, r *stint.Run) (completed bool) {
	t.Helper()
	lost := r.Status == stint.Failed && r.StatusReason != nil && *r.StatusReason == stint.ReasonWorkerLost && r.Error != nil
	if r.Status != stint.Completed && !lost {
		t.Errorf("run %s ended %s, %v, %v", r.ID, r.Status, r.StatusReason, r.Error)
	}
	return r.Status == stint.Completed
}

// observer collects the events and errors that followers of runs received, by run ID.
type observer struct {
	mu     sync.Mutex
	events map[string][]stint.Event
	errs   map[string]error
}

func newObserver() *observer {
	return &observer{events: map[string][]stint.Event{}, errs: map[string]error{}}
}

// follow reads the events of a run to the end. The client resumes the stream after an
// interruption.
func (o *observer) follow(ctx context.Context, c *client.Client, id string) {
	for e, err := range c.Runs.Events(ctx, id, 0) {
		o.mu.Lock()
		if err != nil {
			o.errs[id] = err
		} else {
			o.events[id] = append(o.events[id], e)
		}
		o.mu.Unlock()
	}
}

// compare checks that the follower of a run received exactly the events of the journal,
// and that the last event is complete.
func (o *observer) compare(t *testing.T, c *client.Client, id string) {
	t.Helper()
	if err := o.errs[id]; err != nil {
		t.Errorf("follow %s: %v", id, err)
	}
	journal := installation.Events(t, c, id)
	got := o.events[id]
	if len(got) != len(journal) {
		t.Errorf("a follower of %s received %d events, the journal has %d", id, len(got), len(journal))
		return
	}
	for i := range journal {
		a, b := got[i], journal[i]
		if a.Seq != int64(i+1) || b.Seq != a.Seq || a.Type != b.Type || string(a.Data) != string(b.Data) {
			t.Errorf("event %d of %s: received %s, journal has %s", i+1, id, describe(a), describe(b))
			return
		}
	}
	if last := journal[len(journal)-1]; last.Type != stint.EventComplete {
		t.Errorf("the last event of %s is %s", id, describe(last))
	}
}

func describe(e stint.Event) string { return fmt.Sprintf("%d %s %s", e.Seq, e.Type, e.Data) }
