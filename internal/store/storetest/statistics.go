package storetest

import (
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var statisticsCases = []testCase{
	{"open runs are counted in total and by organisation", func(w *world) {
		before, err := w.s.Load(w.ctx)
		w.must(err, "Load")
		w.diff("an empty store", store.Load{}, before)
		other := w.tenant("other")
		w.home.start()
		c := other.start()
		w.finish(c.Position, w.outcome(stint.Completed))
		w.home.create(func(n *store.NewRun) { n.CreatedAt = later(w.now(), -time.Hour) })
		w.home.create()
		other.create()
		all, err := w.s.Load(w.ctx)
		w.must(err, "Load")
		w.diff("running, pending, workers", []int{1, 3, 2}, []int{all.Running, all.Pending, all.Workers})
		w.aboutAnHour(all.Oldest)
		orgs, err := w.s.OrgLoads(w.ctx, 10)
		w.must(err, "OrgLoads")
		if len(orgs) != 2 {
			w.Fatalf("OrgLoads returned %+v", orgs)
		}
		w.diff("names", []string{"home", "other"}, []string{orgs[0].OrgName, orgs[1].OrgName})
		w.diff("IDs", []string{w.home.org, other.org}, []string{orgs[0].OrgID, orgs[1].OrgID})
		w.diff("running and pending", []int{1, 2, 0, 1}, []int{orgs[0].Running, orgs[0].Pending, orgs[1].Running, orgs[1].Pending})
		w.aboutAnHour(orgs[0].Oldest)
		if orgs[1].Oldest > time.Minute {
			w.Errorf("the oldest run of the other organisation waits for %v", orgs[1].Oldest)
		}
		first, err := w.s.OrgLoads(w.ctx, 1)
		w.must(err, "OrgLoads of one")
		if len(first) != 1 || first[0].OrgID != w.home.org {
			w.Errorf("OrgLoads of one returned %+v", first)
		}
	}},
	{"the first organisation is the oldest", func(w *world) {
		w.tenant("other")
		first, err := w.s.FirstOrg(w.ctx)
		w.must(err, "FirstOrg")
		w.diff("organisation", w.home.org, first)
	}},
}

func (w *world) aboutAnHour(d time.Duration) {
	w.Helper()
	if d < 59*time.Minute || d > 2*time.Hour {
		w.Errorf("the oldest run waits for %v, want about an hour", d)
	}
}
