package storetest

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var queueCases = []testCase{
	{"the runs ahead are those that Claim returns earlier", queueOrder},
	{"only pending runs are queued", func(w *world) {
		c := w.home.start()
		w.notQueued(w.home.org, c.Run.ID)
		w.finish(c.Position, w.outcome(stint.Completed))
		w.notQueued(w.home.org, c.Run.ID)
		w.notQueued(w.home.org, "run_none")
		n := w.home.create()
		w.notQueued(w.tenant("other").org, n.ID)
	}},
	{"a run of a session waits for the oldest open run", func(w *world) {
		first := w.home.start()
		second := w.home.create(inSession(first.Run.SessionID))
		third := w.home.create(inSession(first.Run.SessionID))
		for _, id := range []string{second.ID, third.ID} {
			q := w.queued(w.home.org, id)
			w.diff("ready", false, q.Ready)
			w.diff("before", first.Run.ID, q.Before)
		}
		w.finish(first.Position, w.outcome(stint.Completed))
		w.diff("second", store.QueuedRun{
			ID: second.ID, AgentID: second.AgentID, AgentVersionID: second.AgentVersionID, SessionID: second.SessionID, Ready: true,
		}, w.queued(w.home.org, second.ID))
		w.diff("before the third", second.ID, w.queued(w.home.org, third.ID).Before)
	}},
	{"a run that pauses before a retry is not ready", func(w *world) {
		c := w.home.start(retriesAfter("1h", 1, stint.ReasonExitCode))
		at := w.now()
		w.finish(c.Position, w.outcome(stint.Failed, func(o *store.Outcome) { o.Reason, o.At = stint.ReasonExitCode, at }))
		q := w.queued(w.home.org, c.Run.ID)
		w.diff("ready", false, q.Ready)
		if q.RetryAt == nil || !q.RetryAt.After(at.Time) {
			w.Errorf("the next attempt starts at %v", q.RetryAt)
		}
	}},
	{"the labels of a queued run", func(w *world) {
		labels := map[string]string{"gpu": "yes"}
		n := w.home.create(func(n *store.NewRun) { n.Placement = labels })
		w.diff("labels", labels, w.queued(w.home.org, n.ID).Placement)
	}},
	{"the state counts running runs, and contains live workers", queueState},
}

func queueOrder(w *world) {
	other := w.home.newAgent("other")
	w.tenant("elsewhere").create()
	base := w.now()
	for i, priority := range []int{0, 5, 0, 9, 5, 0} {
		w.home.create(func(n *store.NewRun) {
			n.Priority, n.CreatedAt = priority, later(base, time.Duration(i/2)*time.Millisecond)
			if i%2 == 1 {
				n.AgentID, n.AgentName, n.AgentVersionID = other.ID, other.Name, other.CurrentVersionID
			}
		})
	}
	first := w.home.create()
	w.home.create(inSession(first.SessionID), func(n *store.NewRun) { n.Priority = 9 }) // not ready
	ahead := map[string]int{}
	list, err := w.s.RunSummaries(w.ctx, w.home.org, store.RunFilter{}, store.Range{Limit: 100})
	w.must(err, "RunSummaries")
	for _, r := range list {
		if q := w.queued(w.home.org, r.ID); q.Ready {
			ahead[r.ID] = q.Ahead
		}
	}
	all, err := w.s.QueuedRuns(w.ctx, w.home.org, 100)
	w.must(err, "QueuedRuns")
	var ids []string
	for _, q := range all {
		w.diff("queued run "+q.ID, w.queued(w.home.org, q.ID), readyOnly(q))
		ids = append(ids, q.ID)
	}
	w.diff("order of queued runs", activeIDs(w.activity(w.home, 100)), ids)
	some, err := w.s.QueuedRuns(w.ctx, w.home.org, 3)
	w.must(err, "QueuedRuns")
	w.diff("first queued runs", all[:3], some)
	worker := w.worker()
	for i := range 7 {
		var own store.Claim
		for own.Run.OrgID != w.home.org { // not the run of the other organisation
			own = w.claimOne(worker)
		}
		w.diff(fmt.Sprint("runs ahead of claim ", i), i, ahead[own.Run.ID])
	}
}

// readyOnly returns a queued run as QueuedRun returns it, which counts no runs ahead of one
// that is not ready.
func readyOnly(q store.QueuedRun) store.QueuedRun {
	if !q.Ready {
		q.Ahead = 0
	}
	return q
}

func queueState(w *world) {
	agent := w.home.newAgent("other")
	w.tenant("elsewhere").start()
	a := w.home.start()
	w.home.start(ofAgent(agent))
	w.home.start(ofAgent(agent))
	w.home.create()
	state := func() store.QueueState {
		s, err := w.s.QueueState(w.ctx, w.home.org)
		w.must(err, "QueueState")
		return s
	}
	s := state()
	w.diff("running", 3, s.Running)
	w.diff("running by agent", map[string]int{w.home.agent.ID: 1, agent.ID: 2}, s.RunningOf)
	w.diff("workers", 4, len(s.Workers))
	w.diff("a worker", store.LiveWorker{Host: "host-a", Capacity: 8, Running: 1}, s.Workers[0])
	w.finish(a.Position, w.outcome(stint.Completed))
	s = state()
	w.diff("running after an end", 2, s.Running)
	w.diff("running of the first agent", 0, s.RunningOf[w.home.agent.ID])

	w.must(w.s.EndWorkersOnHost(w.ctx, "host-a"), "EndWorkersOnHost")
	w.must(w.s.DescribeHost(w.ctx, store.Host{Name: "host-b", Isolations: []string{"gvisor"}, Labels: map[string]string{"gpu": "yes"}}), "DescribeHost")
	w.workerOn("host-b", time.Hour)
	w.diff("workers after their end", []store.LiveWorker{{
		Host: "host-b", Capacity: 8, Offer: &store.Host{Name: "host-b", Isolations: []string{"gvisor"}, Labels: map[string]string{"gpu": "yes"}},
	}}, state().Workers)
	empty, err := w.s.QueueState(w.ctx, "org_none")
	w.must(err, "QueueState of an unknown organisation")
	w.diff("running of an unknown organisation", 0, empty.Running)
}

func (w *world) queued(org, id string) store.QueuedRun {
	w.Helper()
	q, err := w.s.QueuedRun(w.ctx, org, id)
	w.must(err, "QueuedRun")
	return q
}

func (w *world) notQueued(org, id string) {
	w.Helper()
	_, err := w.s.QueuedRun(w.ctx, org, id)
	w.wantErr(err, store.ErrNotFound, "QueuedRun of "+id)
}
