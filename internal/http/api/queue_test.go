package api_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/http/api"
	"github.com/stint-dev/stint/internal/notify/inproc"
	"github.com/stint-dev/stint/internal/runs"
	"github.com/stint-dev/stint/internal/sealing"
	"github.com/stint-dev/stint/internal/store"
)

// installation is a dispatcher with other limits than those of the world, and with a
// worker that can be unhealthy.
type installation struct {
	*dispatch.Local
	perOrg, perAgent int
	held             string // a session
	ill              error
}

func (i *installation) Limits() (perOrg, perAgent int) { return i.perOrg, i.perAgent }

func (i *installation) IsHeld(session string) bool { return session == i.held }

// newInstallation returns a world with a runs service that uses the installation.
func newInstallation(t *testing.T) (*world, *installation) {
	t.Helper()
	var service struct{ api.Runs }
	w := newWorld(t, func(c *api.Config) { service.Runs, c.Runs = c.Runs, &service })
	i := &installation{Local: w.dispatch}
	sealer, err := sealing.NewSealer(make([]byte, sealing.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	service.Runs = runs.New(runs.Config{
		Store: w.store, Dispatch: i, Bus: inproc.New(), Sealer: sealer, IDs: w.ids, Now: w.now, Healthy: func() error { return i.ill },
	})
	return w, i
}

// queue reads a run and checks the reason and the position of its queue; 0 is null.
func (w *world) queue(id string, reason stint.QueueReason, position int, message string) {
	w.Helper()
	var r stint.Run
	w.get("/v1/runs/"+id, &r)
	got := 0
	if r.Queue == nil {
		w.Fatalf("the run is %s and has no queue", r.Status)
	}
	if r.Queue.Position != nil {
		got = *r.Queue.Position
	}
	if r.Queue.Reason != reason || got != position || !strings.Contains(r.Queue.Message, message) {
		w.Errorf("queue %+v, position %d; want %s, %d, %q", *r.Queue, got, reason, position, message)
	}
}

// start creates a run with members in addition to an agent and a prompt.
func (w *world) start(members map[string]any) (r stint.Run) {
	w.Helper()
	body := map[string]any{"prompt": "x"}
	maps.Copy(body, members)
	w.post("/v1/runs", body, 202, &r)
	return r
}

func TestQueueReasons(t *testing.T) {
	w, i := newInstallation(t)
	w.newAgent("reviewer")
	w.newAgent("another")
	first := w.newRun("reviewer", "x")
	w.diff("queue of a new run", stint.QueueCapacity, first.Queue.Reason)
	w.queue(first.ID, stint.QueueCapacity, 1, "No worker is connected")
	j := w.claim()
	var running stint.Run
	w.get("/v1/runs/"+first.ID, &running)
	w.diff("queue of a running run", (*stint.Queue)(nil), running.Queue)

	next := w.start(map[string]any{"sessionId": first.SessionID})
	w.diff("queue of a run that continues a session", stint.QueueSession, next.Queue.Reason)
	w.queue(next.ID, stint.QueueSession, 0, first.ID)
	low, high := w.newRun("reviewer", "x"), w.start(map[string]any{"agent": "another", "priority": 9})
	w.queue(low.ID, stint.QueueCapacity, 2, "when a worker takes it")
	w.queue(high.ID, stint.QueueCapacity, 1, "when a worker takes it")
	i.perAgent = 1
	w.queue(low.ID, stint.QueueAgentLimit, 2, "The agent has its maximum of running runs (1)")
	w.queue(high.ID, stint.QueueCapacity, 1, "")
	i.perOrg = 1
	w.queue(low.ID, stint.QueueOrganisationLimit, 2, "The organisation has its maximum of running runs (1)")
	i.ill = &stint.Error{Kind: stint.KindUnavailable, Message: "Sandboxes do not start."}
	w.queue(high.ID, stint.QueueUnhealthy, 1, "Sandboxes do not start.")
	i.held = low.SessionID
	w.queue(low.ID, stint.QueueSalvage, 0, "after a crash")

	j.finish(stint.Completed)
	w.get("/v1/runs/"+first.ID, &running)
	w.diff("queue of an ended run", (*stint.Queue)(nil), running.Queue)
	i.perOrg, i.perAgent, i.ill, i.held = 0, 0, nil, ""
	w.queue(next.ID, stint.QueueCapacity, 2, "")
	w.queue(low.ID, stint.QueueCapacity, 3, "")
	if a := w.do(request{method: "POST", path: "/v1/runs/" + low.ID + "/cancel"}); !strings.Contains(string(a.body), `"queue":null`) {
		t.Errorf("the cancelled run is %s", a.body)
	}
}

func TestQueueOfRequirements(t *testing.T) {
	w, _ := newInstallation(t)
	for name, members := range map[string]map[string]any{
		"gpu":    {"placement": map[string]any{"labels": map[string]string{"gpu": "yes"}}},
		"gvisor": {"sandbox": "gvisor"},
	} {
		members["name"], members["framework"] = name, "shell"
		w.post("/v1/agents", members, 201, &stint.Agent{})
	}
	describe := func(h store.Host) {
		t.Helper()
		h.Name = "here"
		if err := w.store.DescribeHost(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	w.newAgent("reviewer")
	w.newRun("reviewer", "x")
	w.claim() // registers the worker
	gpu, gvisor := w.newRun("gpu", "x"), w.newRun("gvisor", "x")
	w.queue(gpu.ID, stint.QueueCapacity, 1, "")
	describe(store.Host{Isolations: []string{"namespace"}})
	w.queue(gpu.ID, stint.QueuePlacement, 0, "gpu=yes")
	w.queue(gvisor.ID, stint.QueueIsolation, 2, "'gvisor'")
	describe(store.Host{Isolations: []string{"namespace", "gvisor"}, Labels: map[string]string{"gpu": "yes"}})
	w.queue(gpu.ID, stint.QueueCapacity, 1, "")
	w.queue(gvisor.ID, stint.QueueCapacity, 2, "")
}

func TestQueueOfRetry(t *testing.T) {
	w, _ := newInstallation(t)
	w.post("/v1/agents", map[string]any{"name": "flaky", "framework": "shell", "retries": map[string]any{
		"max": 1, "on": []string{"exit_code"}, "backoff": map[string]any{"initial": "1h", "max": "1h"},
	}}, 201, &stint.Agent{})
	run := w.newRun("flaky", "x")
	w.claim().finish(stint.Failed)
	w.queue(run.ID, stint.QueueRetry, 0, "The next one starts at 20")
	later := w.start(map[string]any{"sessionId": run.SessionID})
	w.queue(later.ID, stint.QueueSession, 0, run.ID)
}
