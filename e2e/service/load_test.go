package service_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// TestSixtyAtOnce holds sixty runs at the same time.
func TestSixtyAtOnce(t *testing.T) {
	h := installation.New(t, "--capacity", "60")
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	ids := make([]string, 60)
	for i := range ids {
		ids[i] = installation.Create(t, c, stint.NewRun{Prompt: "echo begin; sleep 3; echo end"}).ID
	}
	var earliestEnd, latestStart time.Time
	for _, id := range ids {
		r := installation.Ended(t, c, id)
		if r.Status != stint.Completed {
			t.Errorf("run %s is %s: %v", id, r.Status, r.Error)
			continue
		}
		if r.StartedAt.After(latestStart) {
			latestStart = r.StartedAt.Time
		}
		if earliestEnd.IsZero() || r.CompletedAt.Before(earliestEnd) {
			earliestEnd = r.CompletedAt.Time
		}
	}
	if !latestStart.Before(earliestEnd) {
		t.Errorf("the last run started at %s, after the first had ended at %s", latestStart, earliestEnd)
	}
}

// TestThousandDoNotStarveOne holds the queue to fairness between
// organisations.
func TestThousandDoNotStarveOne(t *testing.T) {
	h := installation.New(t, "--capacity", "2", "--drain", "0")
	h.Start()
	many, one := h.Login(t, "acme"), h.Login(t, "beta")
	installation.Agent(t, many, "shell", "")
	installation.Agent(t, one, "shell", "")
	for range 1000 {
		installation.Create(t, many, stint.NewRun{Prompt: "sleep 0.2"})
	}
	single := installation.Ended(t, one, installation.Create(t, one, stint.NewRun{Prompt: "echo me too"}).ID)
	waiting := 0
	for _, err := range many.Runs.List(t.Context(), clientFilter(stint.Pending)) {
		installation.Check(t, err)
		waiting++
	}
	if single.Status != stint.Completed || waiting < 500 {
		t.Errorf("the other organisation's run ended %s when %d runs were still waiting", single.Status, waiting)
	}
}

// TestTwoHundredQueued holds the queue to ending everything, and to letting a
// second organisation's single run through.
func TestTwoHundredQueued(t *testing.T) {
	h := installation.New(t, "--capacity", "4")
	h.Start()
	many, one := h.Login(t, "acme"), h.Login(t, "beta")
	installation.Agent(t, many, "shell", "")
	installation.Agent(t, one, "shell", "")
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = installation.Create(t, many, stint.NewRun{Prompt: "sleep 0.05"}).ID
	}
	single := installation.Ended(t, one, installation.Create(t, one, stint.NewRun{Prompt: "echo me too"}).ID)
	waiting := 0
	for r, err := range many.Runs.List(t.Context(), clientFilter(stint.Pending)) {
		installation.Check(t, err)
		_ = r
		waiting++
	}
	if single.Status != stint.Completed || waiting < 50 {
		t.Errorf("the other organisation's run ended %s when %d runs were still waiting", single.Status, waiting)
	}
	for _, id := range ids {
		if r := installation.Ended(t, many, id); r.Status != stint.Completed {
			t.Errorf("run %s is %s: %v", id, r.Status, r.Error)
		}
	}
}

// TestStopLetsRunsEnd holds SIGTERM to draining.
func TestStopLetsRunsEnd(t *testing.T) {
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	r := installation.Create(t, c, stint.NewRun{Prompt: "echo begin; sleep 1; echo end > out.txt", ArtifactName: "kept"})
	for e, err := range c.Runs.Events(t.Context(), r.ID, 0) {
		installation.Check(t, err)
		if e.Type == stint.EventOutput {
			break
		}
	}
	h.Stop(syscall.SIGTERM)
	if left := h.Leftovers(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	h.Start()
	if got := installation.Ended(t, c, r.ID); got.Status != stint.Completed || got.ArtifactVersion == nil {
		t.Errorf("the run that was draining is %s: %v", got.Status, got.Error)
	}
}

// TestDataFolderIsPrivate holds the files of an installation to their owner.
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
