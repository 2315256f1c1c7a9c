package service_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// TestSixtyConcurrentRuns starts sixty runs, each of which ends only after all of them
// have started.
func TestSixtyConcurrentRuns(t *testing.T) {
	const n = 60
	h := installation.New(t, "--capacity", fmt.Sprint(n))
	h.Start()
	c := h.Login(t, "acme")
	at := barrier(t, n)
	installation.Agent(t, c, "shell", fmt.Sprintf(`,"network":{"mode":"restricted","allow":[%q]}`, at))
	ids := make([]string, n)
	for i := range ids {
		ids[i] = installation.Create(t, c, stint.NewRun{Prompt: "echo begin; curl -sS --fail http://" + at + " && echo end"}).ID
	}
	for _, id := range ids {
		if r := installation.Ended(t, c, id); r.Status != stint.Completed {
			t.Errorf("run %s is %s: %v", id, r.Status, installation.Value(r.Error))
		}
	}
}

// barrier starts a server that responds to requests only after n requests have arrived.
// It returns the address at which sandboxes reach the server.
func barrier(t *testing.T, n int64) string {
	t.Helper()
	var came atomic.Int64
	all := make(chan struct{})
	place := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if came.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(place.Close)
	return strings.Replace(place.Listener.Addr().String(), "127.0.0.1", stint.HostAlias, 1)
}

// queue is a server with a capacity that runs of one organisation use up. many is the
// client of this organisation, one is the client of another organisation, and holders
// are the IDs of the runs that use up the capacity.
type queue struct {
	many, one *client.Client
	holders   []string
}

func newQueue(t *testing.T, places int, flags ...string) *queue {
	t.Helper()
	h := installation.New(t, append([]string{"--capacity", fmt.Sprint(places)}, flags...)...)
	h.Start()
	q := &queue{many: h.Login(t, "acme"), one: h.Login(t, "beta")}
	installation.Agent(t, q.many, "shell", "")
	installation.Agent(t, q.one, "shell", "")
	for range places {
		id := installation.Create(t, q.many, stint.NewRun{Prompt: endless}).ID
		awaitOutput(t, q.many, id)
		q.holders = append(q.holders, id)
	}
	return q
}

// open cancels the runs that use up the capacity.
func (q *queue) open(t *testing.T) {
	t.Helper()
	for _, id := range q.holders {
		_, err := q.many.Runs.Cancel(t.Context(), id)
		installation.Check(t, err)
	}
}

// runOther creates a run of the other organisation, calls open, and waits until the run
// has ended. It returns the number of runs of the first organisation that are still
// pending.
func (q *queue) runOther(t *testing.T) (waiting int) {
	t.Helper()
	id := installation.Create(t, q.one, stint.NewRun{Prompt: "echo me too"}).ID
	q.open(t)
	if r := installation.Ended(t, q.one, id); r.Status != stint.Completed {
		t.Errorf("the other organisation's run ended %s", r.Status)
	}
	for _, err := range q.many.Runs.List(t.Context(), clientFilter(stint.Pending)) {
		installation.Check(t, err)
		waiting++
	}
	return waiting
}

// TestFairnessBetweenOrganisations queues a thousand runs of one organisation, and then
// a run of another. This run must end while at least 500 of the thousand are pending.
func TestFairnessBetweenOrganisations(t *testing.T) {
	q := newQueue(t, 2, "--drain", "0")
	for range 1000 {
		installation.Create(t, q.many, stint.NewRun{Prompt: "sleep 0.2"})
	}
	if waiting := q.runOther(t); waiting < 500 {
		t.Errorf("when the run of the other organisation ended, %d runs were pending", waiting)
	}
}

// TestQueueIsWorkedOff queues two hundred runs of one organisation and then a run of
// another, and checks that all of them complete.
func TestQueueIsWorkedOff(t *testing.T) {
	q := newQueue(t, 4)
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = installation.Create(t, q.many, stint.NewRun{Prompt: "sleep 0.05"}).ID
	}
	if waiting := q.runOther(t); waiting < 50 {
		t.Errorf("when the run of the other organisation ended, %d runs were pending", waiting)
	}
	for _, id := range ids {
		if r := installation.Ended(t, q.many, id); r.Status != stint.Completed {
			t.Errorf("run %s is %s: %v", id, r.Status, r.Error)
		}
	}
}

// TestDrain checks that a run that is in progress when the server receives SIGTERM can
// complete before the server exits.
func TestDrain(t *testing.T) {
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	r := installation.Create(t, c, stint.NewRun{Prompt: "echo begin; sleep 1; echo end > out.txt", ArtifactName: "kept"})
	awaitOutput(t, c, r.ID)
	h.Stop(syscall.SIGTERM)
	if left := h.Leftovers(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	h.Start()
	if got := installation.Ended(t, c, r.ID); got.Status != stint.Completed || got.ArtifactVersion == nil {
		t.Errorf("the drained run is %s: %v", got.Status, got.Error)
	}
}

// TestDataFolderIsPrivate checks that only the owner can access the data folder.
func TestDataFolderIsPrivate(t *testing.T) {
	h := installation.New(t)
	h.Start()
	for _, name := range []string{"", "/key", "/stint.db", "/stint.sock", "/blobs", "/worker"} {
		info, err := os.Stat(h.Data + name)
		installation.Check(t, err)
		if open := info.Mode().Perm() & 0o077; open != 0 {
			t.Errorf("%q is %s", name, fmt.Sprint(info.Mode()))
		}
	}
}
