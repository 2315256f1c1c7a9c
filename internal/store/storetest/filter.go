package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var filterCases = []testCase{
	{"every field of a filter narrows the list", filters},
	{"filtered lists have the same pages", func(w *world) {
		for range 7 {
			w.home.create(metadata("team", "blue"))
			w.home.create(metadata("team", "red"))
		}
		page := positions(func(r store.Range) ([]stint.RunSummary, error) {
			return w.s.RunSummaries(w.ctx, w.home.org, store.RunFilter{Metadata: map[string]string{"team": "blue"}}, r)
		}, func(s stint.RunSummary) store.Cursor { return store.Cursor{At: s.CreatedAt, ID: s.ID} })
		for _, limit := range []int{1, 3, 7, 8} {
			w.diff(fmt.Sprint("items with limit ", limit), 7, len(w.walk(page, limit, func() {})))
		}
	}},
}

func metadata(pairs ...string) func(*store.NewRun) {
	return func(n *store.NewRun) {
		n.Metadata = make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			n.Metadata[pairs[i]] = pairs[i+1]
		}
	}
}

func createdAt(at stint.Time) func(*store.NewRun) { return func(n *store.NewRun) { n.CreatedAt = at } }

func createdBy(creator string) func(*store.NewRun) {
	return func(n *store.NewRun) { n.CreatedBy = &creator }
}

func filters(w *world) {
	reviewer := w.home.newAgent("reviewer")
	base := later(w.now(), time.Minute)
	at := func(ms int) stint.Time { return later(base, time.Duration(ms)*time.Millisecond) }
	runs := map[string]store.NewRun{}
	runs["a"] = w.home.create(createdAt(at(1)), metadata("team", "blue"), createdBy("user:ada"))
	running := w.claimOne(w.worker())
	runs["b"] = w.home.create(createdAt(at(2)), ofAgent(reviewer), metadata("team", "blue", "k", "v' OR 1=1 --"))
	runs["c"] = w.home.create(createdAt(at(3)), inSession(runs["b"].SessionID), ofAgent(reviewer), createdBy("user:ada"))
	runs["d"] = w.home.create(createdAt(at(4)), metadata("team", "red", "a.b", `"q"`))
	w.cancel(w.home.org, runs["d"].ID)
	w.diff("running", runs["a"].ID, running.Run.ID)
	name := map[string]string{}
	for n, r := range runs {
		name[r.ID] = n
	}
	for _, c := range []struct {
		what   string
		filter store.RunFilter
		want   string
	}{
		{"nothing", store.RunFilter{}, "dcba"},
		{"pending", store.RunFilter{Statuses: []stint.Status{stint.Pending}}, "cb"},
		{"running", store.RunFilter{Statuses: []stint.Status{stint.Running}}, "a"},
		{"cancelled", store.RunFilter{Statuses: []stint.Status{stint.Cancelled}}, "d"},
		{"completed", store.RunFilter{Statuses: []stint.Status{stint.Completed}}, ""},
		{"pending or running", store.RunFilter{Statuses: []stint.Status{stint.Pending, stint.Running}}, "cba"},
		{"cancelled or pending", store.RunFilter{Statuses: []stint.Status{stint.Cancelled, stint.Pending}}, "dcb"},
		{"every status", store.RunFilter{Statuses: stint.Statuses}, "dcba"},
		{"two statuses and metadata", store.RunFilter{
			Statuses: []stint.Status{stint.Running, stint.Pending}, Metadata: map[string]string{"team": "blue"},
		}, "ba"},
		{"agent", store.RunFilter{AgentID: reviewer.ID}, "cb"},
		{"creator", store.RunFilter{CreatedBy: "user:ada"}, "ca"},
		{"unknown creator", store.RunFilter{CreatedBy: "user:"}, ""},
		{"unknown agent", store.RunFilter{AgentID: "ag_none"}, ""},
		{"session", store.RunFilter{SessionID: runs["b"].SessionID}, "cb"},
		{"since, inclusive", store.RunFilter{Since: new(at(3))}, "dc"},
		{"until, inclusive", store.RunFilter{Until: new(at(2))}, "ba"},
		{"since and until", store.RunFilter{Since: new(at(2)), Until: new(at(3))}, "cb"},
		{"an empty span", store.RunFilter{Since: new(at(3)), Until: new(at(2))}, ""},
		{"metadata", store.RunFilter{Metadata: map[string]string{"team": "blue"}}, "ba"},
		{"two metadata", store.RunFilter{Metadata: map[string]string{"team": "blue", "k": "v' OR 1=1 --"}}, "b"},
		{"odd metadata", store.RunFilter{Metadata: map[string]string{"a.b": `"q"`}}, "d"},
		{"metadata of the wrong value", store.RunFilter{Metadata: map[string]string{"team": "blu"}}, ""},
		{"metadata of no run", store.RunFilter{Metadata: map[string]string{"TEAM": "blue"}}, ""},
		{"all together", store.RunFilter{
			Statuses: []stint.Status{stint.Pending}, AgentID: reviewer.ID, SessionID: runs["b"].SessionID,
			Since: new(at(1)), Until: new(at(4)), Metadata: map[string]string{"team": "blue"},
		}, "b"},
	} {
		list, err := w.s.RunSummaries(w.ctx, w.home.org, c.filter, store.Range{Limit: 10})
		w.must(err, "RunSummaries")
		var got strings.Builder
		for _, s := range list {
			got.WriteString(name[s.ID])
		}
		w.diff("runs by "+c.what, c.want, got.String())
	}
}
