package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint"
)

func TestActivity(t *testing.T) {
	w := newWorld(t)
	w.newAgent("reviewer")
	empty := w.do(request{method: "GET", path: "/v1/activity"})
	var a stint.Activity
	w.decode(empty, http.StatusOK, &a)
	if a.Running != 0 || a.Pending != 0 || a.Data == nil || a.At.IsZero() {
		t.Errorf("without runs: %s", empty.body)
	}
	running := w.newRun("reviewer", "first")
	j := w.claim()
	pending := w.newRun("reviewer", "second")
	newest := stint.MetricsSample{Timestamp: stint.TimeOf(time.Now()), CPUPercent: 37.5, MemoryUsedMb: 12, MemoryTotalMb: 2048, DiskUsedMb: 3, DiskTotalMb: 10240}
	if err := w.store.AddMetrics(t.Context(), running.ID, []stint.MetricsSample{newest}, nil); err != nil {
		t.Fatal(err)
	}
	w.get("/v1/activity", &a)
	if a.Running != 1 || a.Pending != 1 || len(a.Data) != 2 {
		t.Fatalf("%d running, %d pending: %+v", a.Running, a.Pending, a.Data)
	}
	w.diff("runs", []string{running.ID, pending.ID}, []string{a.Data[0].ID, a.Data[1].ID})
	w.diff("sample", &newest, a.Data[0].Metrics)
	w.diff("sample of the pending run", (*stint.MetricsSample)(nil), a.Data[1].Metrics)
	if q := a.Data[1].Queue; a.Data[0].Queue != nil || q == nil || q.Position == nil || *q.Position != 1 || q.Message == "" {
		t.Errorf("queues %+v, %+v", a.Data[0].Queue, q)
	}
	w.get("/v1/activity?limit=1", &a)
	if a.Running != 1 || a.Pending != 1 || len(a.Data) != 1 || a.Data[0].ID != running.ID {
		t.Errorf("with a limit of 1: %+v", a)
	}
	j.finish(stint.Completed)
	w.get("/v1/activity", &a)
	if a.Running != 0 || a.Pending != 1 || len(a.Data) != 1 || a.Data[0].ID != pending.ID {
		t.Errorf("after the end of the first run: %+v", a)
	}
	words := map[string]string{"other": w.login("blue", "bob"), "reader": w.tokenWithScope("read"), "run": pending.ID}
	w.run(t, words, []row{
		{"another organisation", "GET", "/v1/activity", "other", nil, nil, 200, []string{`"running":0`, `"pending":0`, `"data":[]`}, []string{"{run}"}},
		{"a reader", "GET", "/v1/activity", "reader", nil, nil, 200, []string{`"{run}"`}, nil},
		{"no token", "GET", "/v1/activity", "-", nil, nil, 401, []string{badKey}, nil},
		{"another method", "POST", "/v1/activity", "", nil, "{}", 405, []string{"method_not_allowed"}, nil},
		{"no limit", "GET", "/v1/activity?limit=0", "", nil, nil, 400, []string{invalid, "500"}, nil},
		{"a limit above the maximum", "GET", "/v1/activity?limit=501", "", nil, nil, 400, []string{invalid}, nil},
		{"an odd limit", "GET", "/v1/activity?limit=010", "", nil, nil, 400, []string{invalid}, nil},
		{"two limits", "GET", "/v1/activity?limit=1&limit=2", "", nil, nil, 400, []string{invalid}, nil},
	})
}
