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

// onslaught is how often a server is killed, with how many runs.
type onslaught struct{ crashes, runs int }

var full, half = onslaught{20, 50}, onslaught{10, 50}

// TestKill9 kills the server again and again while runs write, and holds what
// is left to what clients had seen.
func TestKill9(t *testing.T) {
	h := installation.New(t)
	h.Start()
	kills(t, h, full, func(int) { h.Stop(syscall.SIGKILL) })
	h.Stop(syscall.SIGTERM)
	integrity(t, filepath.Join(h.Data, "stint.db"))
}

// TestKill9PostgreSQL does the same on PostgreSQL, which is itself stopped at
// once every other time.
func TestKill9PostgreSQL(t *testing.T) {
	cluster, err := pgtest.StartCluster("")
	installation.Check(t, err)
	t.Cleanup(func() { installation.Check(t, cluster.Close()) })
	installation.Check(t, cluster.CreateDatabase(t.Context(), "stint"))
	h := installation.New(t, "--database", cluster.URL("stint"))
	h.Start()
	kills(t, h, half, func(round int) {
		if round%2 == 1 {
			installation.Check(t, cluster.StopImmediate())
			h.Stop(syscall.SIGKILL)
			installation.Check(t, cluster.Start())
			return
		}
		h.Stop(syscall.SIGKILL)
	})
}

func integrity(t *testing.T, path string) {
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

// kills runs runs with output, calls kill at a random moment, restarts and
// checks, again and again.
func kills(t *testing.T, h *installation.Host, o onslaught, kill func(round int)) {
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	completed, lost := 0, 0
	for round := range o.crashes {
		done, gone := crash(t, h, c, round, o.runs, kill)
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
	chatter = `for i in $(seq 1 40); do echo "line $i of $STINT_RUN_ID"; sleep 0.03; done`
	endless = `echo "$STINT_RUN_ID begins"; sleep 600`
)

// The first rounds are kills of which is known what they meet, however fast the
// machine is: a run that has ended, and one that has begun and does not end.
const (
	afterAnEnd = iota
	inTheMiddle
)

// script is what the runs of a round do.
func script(round, i int) string {
	if round == inTheMiddle && i == 0 {
		return endless
	}
	return chatter
}

// moment waits for the time of a kill, which is random after the first rounds.
func moment(t *testing.T, c *client.Client, round int, ids []string) {
	t.Helper()
	switch round {
	case afterAnEnd:
		installation.Ended(t, c, ids[0])
	case inTheMiddle:
		begun(t, c, ids[0])
	default:
		<-time.After(time.Duration(200+rand.IntN(3500)) * time.Millisecond)
	}
}

// begun waits until a run's agent has said something.
func begun(t *testing.T, c *client.Client, id string) {
	t.Helper()
	for e, err := range c.Runs.Events(t.Context(), id, 0) {
		installation.Check(t, err)
		if e.Type == stint.EventOutput {
			return
		}
	}
	t.Fatalf("%s ended without a word", id)
}

func crash(t *testing.T, h *installation.Host, c *client.Client, round, runs int, kill func(round int)) (completed, lost int) {
	seen := newWitness()
	ids := make([]string, runs)
	var followers sync.WaitGroup
	for i := range ids {
		ids[i] = installation.Create(t, c, stint.NewRun{Prompt: script(round, i)}).ID
		followers.Go(func() { seen.follow(apitest.Failing(t.Context()), c, ids[i]) }) // the database may be gone for a moment
	}
	moment(t, c, round, ids)
	kill(round)
	h.Start()
	followers.Wait()
	for _, id := range ids {
		r := installation.Ended(t, c, id)
		if honest(t, r) {
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

// honest holds a run's end to one of the two that are true here.
func honest(t *testing.T, r *stint.Run) (completed bool) {
	t.Helper()
	lost := r.Status == stint.Failed && r.StatusReason != nil && *r.StatusReason == stint.ReasonWorkerLost && r.Error != nil
	if r.Status != stint.Completed && !lost {
		t.Errorf("run %s ended %s, %v, %v", r.ID, r.Status, r.StatusReason, r.Error)
	}
	return r.Status == stint.Completed
}

// witness remembers every event that followers received.
type witness struct {
	mu     sync.Mutex
	events map[string][]stint.Event
	errs   map[string]error
}

func newWitness() *witness {
	return &witness{events: map[string][]stint.Event{}, errs: map[string]error{}}
}

// follow reads the stream to its end, resuming where it breaks off.
func (w *witness) follow(ctx context.Context, c *client.Client, id string) {
	for e, err := range c.Runs.Events(ctx, id, 0) {
		w.mu.Lock()
		if err != nil {
			w.errs[id] = err
		} else {
			w.events[id] = append(w.events[id], e)
		}
		w.mu.Unlock()
	}
}

// compare holds what a follower saw across the crash to the journal.
func (w *witness) compare(t *testing.T, c *client.Client, id string) {
	t.Helper()
	if err := w.errs[id]; err != nil {
		t.Errorf("follow %s: %v", id, err)
	}
	journal := installation.Events(t, c, id)
	got := w.events[id]
	if len(got) != len(journal) {
		t.Errorf("a follower of %s saw %d events, the journal has %d", id, len(got), len(journal))
		return
	}
	for i := range journal {
		a, b := got[i], journal[i]
		if a.Seq != int64(i+1) || b.Seq != a.Seq || a.Type != b.Type || string(a.Data) != string(b.Data) {
			t.Errorf("event %d of %s: saw %s, journal has %s", i+1, id, describe(a), describe(b))
			return
		}
	}
	if last := journal[len(journal)-1]; last.Type != stint.EventComplete {
		t.Errorf("the last event of %s is %s", id, describe(last))
	}
}

func describe(e stint.Event) string { return fmt.Sprintf("%d %s %s", e.Seq, e.Type, e.Data) }
