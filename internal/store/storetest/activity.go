package storetest

import (
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var activityCases = []testCase{
	{"running runs come first, then pending ones by priority and age", func(w *world) {
		first, second := w.home.start(), w.home.start()
		low := w.home.create()
		high := w.home.create(func(n *store.NewRun) { n.Priority = 9 })
		last := w.home.create()
		ended := w.home.start(func(n *store.NewRun) { n.Priority = 9; n.CreatedAt = later(w.now(), -time.Hour) })
		if ended.Run.ID == first.Run.ID {
			w.Fatalf("the run was claimed twice")
		}
		w.finish(ended.Position, w.outcome(stint.Completed))
		a := w.activity(w.home, 10)
		w.diff("running and pending", []int{2, 3}, []int{a.Running, a.Pending})
		w.diff("order", []string{first.Run.ID, second.Run.ID, high.ID, low.ID, last.ID}, activeIDs(a))
		w.diff("order of the first three", []string{first.Run.ID, second.Run.ID, high.ID}, activeIDs(w.activity(w.home, 3)))
		w.diff("order of the first", []string{first.Run.ID}, activeIDs(w.activity(w.home, 1)))
		got := a.Data[2]
		w.diff("the pending run", stint.ActiveRun{
			RunSummary: stint.RunSummary{ID: high.ID, AgentID: high.AgentID, AgentName: high.AgentName, Status: stint.Pending, Prompt: high.Prompt, CreatedAt: high.CreatedAt},
			SessionID:  high.SessionID, Priority: 9,
		}, got)
		if a.Data[0].StartedAt == nil || a.Data[0].Status != stint.Running {
			w.Errorf("the first run is %+v", a.Data[0])
		}
	}},
	{"a running run has its newest sample", func(w *world) {
		c, other := w.home.start(), w.home.start()
		w.diff("before the first sample", (*stint.MetricsSample)(nil), w.activity(w.home, 10).Data[0].Metrics)
		base := w.now()
		newest := sample(later(base, time.Second), 70)
		place := &store.Place{Epoch: c.Position.Epoch, Isolation: "namespace", Usage: []byte(`{"inputTokens":7,"costUsd":0.5}`)}
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, []stint.MetricsSample{newest, sample(base, 10)}, place), "AddMetrics")
		a := w.activity(w.home, 10)
		w.diff("sample", &newest, a.Data[0].Metrics)
		cost, isolation := 0.5, "namespace"
		w.diff("usage", &stint.Usage{Tokens: stint.Tokens{InputTokens: 7}, CostUSD: &cost}, a.Data[0].Usage)
		w.diff("attempt", []any{1, &c.Run.WorkerID, &isolation}, []any{a.Data[0].Attempt, a.Data[0].WorkerID, a.Data[0].Isolation})
		place.Usage = nil
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, nil, place), "AddMetrics without usage")
		w.diff("usage after a sample without it", &cost, w.activity(w.home, 10).Data[0].Usage.CostUSD)
		place.Epoch, place.Usage = c.Position.Epoch+1, []byte(`{"inputTokens":8}`)
		w.must(w.s.AddMetrics(w.ctx, c.Run.ID, nil, place), "AddMetrics of another epoch")
		w.diff("usage after a sample of another epoch", &cost, w.activity(w.home, 10).Data[0].Usage.CostUSD)
		w.diff("sample of "+other.Run.ID, (*stint.MetricsSample)(nil), a.Data[1].Metrics)
	}},
	{"long prompts are cut", func(w *world) {
		w.home.create(func(n *store.NewRun) { n.Prompt = strings.Repeat("\x00ä", 300) })
		w.diff("prompt", strings.Repeat("\x00ä", stint.MaxActivityPrompt/2), w.activity(w.home, 1).Data[0].Prompt)
	}},
}

func (w *world) activity(o *tenant, limit int) stint.Activity {
	w.Helper()
	a, err := w.s.Activity(w.ctx, o.org, limit)
	w.must(err, "Activity")
	return a
}

func activeIDs(a stint.Activity) []string {
	ids := make([]string, len(a.Data))
	for i, r := range a.Data {
		ids[i] = r.ID
	}
	return ids
}
