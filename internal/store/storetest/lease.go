package storetest

import (
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var leaseCases = []testCase{
	{"hosts are described and replaced", func(w *world) {
		none, err := w.s.Hosts(w.ctx)
		w.must(err, "Hosts without a host")
		b := store.Host{Name: "host-b", Isolations: []string{"namespace"}, Frameworks: []string{"shell", "codex"}, Labels: map[string]string{"zone": "ä=\"1\""}}
		w.must(w.s.DescribeHost(w.ctx, b), "DescribeHost")
		w.must(w.s.DescribeHost(w.ctx, store.Host{Name: "host-a", Isolations: []string{"gvisor"}, Unseen: time.Hour}), "DescribeHost")
		w.waitFor(20 * time.Millisecond)
		a := store.Host{Name: "host-a", Isolations: []string{"namespace", "gvisor"}}
		w.must(w.s.DescribeHost(w.ctx, a), "DescribeHost again")
		hosts, err := w.s.Hosts(w.ctx)
		w.must(err, "Hosts")
		if len(hosts) != 2 {
			w.Fatalf("%d hosts", len(hosts))
		}
		if newer, older := hosts[0].Unseen, hosts[1].Unseen; newer < 0 || older < newer+20*time.Millisecond || older > time.Hour {
			w.Errorf("unseen for %s and %s", newer, older)
		}
		hosts[0].Unseen, hosts[1].Unseen = 0, 0
		w.diff("hosts", []store.Host{a, b}, hosts)
		w.diff("hosts of a new database", 0, len(none))
	}},
	{"RunningOnHost returns the running runs of a host", func(w *world) {
		here, there := w.workerOn("here", time.Hour), w.workerOn("there", time.Hour)
		var want []string
		for range 3 {
			w.home.create()
			want = append(want, w.claimOne(here).Run.ID)
		}
		w.cancel(w.home.org, want[1])
		want = slices.Delete(want, 1, 2)
		w.home.create()
		w.claimOne(there)
		w.must(w.s.EndWorker(w.ctx, here), "EndWorker")
		slices.Sort(want)
		got, err := w.s.RunningOnHost(w.ctx, "here")
		w.must(err, "RunningOnHost")
		w.diff("runs", want, got)
	}},
	{"Renew returns nothing if the worker owns all its runs", func(w *world) {
		c := w.home.start()
		w.diff("stop", []string(nil), w.renew(c.Run.WorkerID, c.Run.ID))
		w.diff("stop without runs", []string(nil), w.renew(c.Run.WorkerID))
	}},
	{"Renew returns runs that the worker no longer owns", func(w *world) {
		worker := w.worker()
		var claims []store.Claim
		for range 3 {
			w.home.create()
			claims = append(claims, w.claimOne(worker))
		}
		kept, cancelled, finished := claims[0], claims[1], claims[2]
		others := w.home.start()
		waits := w.home.create()
		w.cancel(w.home.org, cancelled.Run.ID)
		w.finish(finished.Position, w.outcome(stint.Completed))
		unknown := w.ids.New(stint.PrefixRun)
		stop := w.renew(worker, kept.Run.ID, cancelled.Run.ID, finished.Run.ID, others.Run.ID, waits.ID, unknown)
		w.diff("stop", set([]string{cancelled.Run.ID, finished.Run.ID, others.Run.ID, waits.ID, unknown}), set(stop))
		w.diff("names", 5, len(stop))
	}},
	{"an ended lease cannot be renewed", func(w *world) {
		worker := w.worker()
		w.must(w.s.EndWorker(w.ctx, worker), "EndWorker")
		w.leaseLost(worker)
		_, err := w.s.Reap(w.ctx, w.now(), 10)
		w.must(err, "Reap")
		w.leaseLost(worker)
	}},
	{"an expired lease cannot be renewed", func(w *world) {
		worker := w.workerOn("host-a", time.Millisecond)
		w.waitFor(20 * time.Millisecond)
		w.leaseLost(worker)
		w.leaseLost(worker)
	}},
	{"an unregistered worker has no lease", func(w *world) {
		w.leaseLost(w.ids.New(stint.PrefixWorker))
	}},
	{"Renew extends the lease", func(w *world) {
		n := w.home.create()
		// On a slow machine, the short lease may expire before Renew. Then the loop
		// registers another worker.
		var worker string
		w.eventually("a lease was renewed in time", func() bool {
			worker = w.workerOn("host-a", 200*time.Millisecond)
			_, err := w.s.Renew(w.ctx, worker, nil, time.Hour)
			return err == nil
		})
		w.claimOne(worker)
		w.waitFor(250 * time.Millisecond)
		lost, err := w.s.Reap(w.ctx, w.now(), 10)
		w.must(err, "Reap")
		w.diff("lost", 0, len(lost))
		w.diff("stop", []string(nil), w.renew(worker, n.ID))
	}},
	{"a worker whose lease expired claims nothing", func(w *world) {
		n := w.home.create()
		worker := w.workerOn("host-a", time.Millisecond)
		w.waitFor(20 * time.Millisecond)
		w.claimsNothing(worker)
		w.diff("status", stint.Pending, w.home.checkRun(n.ID).Status)
	}},
	{"EndWorkersOnHost ends the leases of one host", func(w *world) {
		a1, a2, b := w.workerOn("host-a", time.Hour), w.workerOn("host-a", time.Hour), w.workerOn("host-b", time.Hour)
		w.home.createMany(3)
		first, second := w.claimOne(a1), w.claimOne(a2)
		other := w.claimOne(b)
		w.must(w.s.EndWorkersOnHost(w.ctx, "host-a"), "EndWorkersOnHost")
		w.must(w.s.EndWorkersOnHost(w.ctx, "host-c"), "EndWorkersOnHost of an unknown host")
		w.leaseLost(a1)
		w.leaseLost(a2)
		w.diff("stop on the other host", []string(nil), w.renew(b, other.Run.ID))
		lost, err := w.s.Reap(w.ctx, w.now(), 10)
		w.must(err, "Reap")
		w.diff("lost", set([]string{first.Run.ID, second.Run.ID}), set(lost))
		again := w.workerOn("host-a", time.Hour)
		w.diff("stop of the next incarnation", []string(nil), w.renew(again))
	}},
	{"EndWorker of an unknown worker is not an error", func(w *world) {
		w.must(w.s.EndWorker(w.ctx, w.ids.New(stint.PrefixWorker)), "EndWorker")
	}},
	{"Now does not decrease", func(w *world) {
		last := time.Time{}
		for range 20 {
			now, err := w.s.Now(w.ctx)
			w.must(err, "Now")
			if now.Before(last) {
				w.Errorf("Now returned %s after %s", now, last)
			}
			last = now
		}
	}},
}

func (w *world) renew(worker string, holds ...string) []string {
	w.Helper()
	stop, err := w.s.Renew(w.ctx, worker, holds, time.Hour)
	w.must(err, "Renew")
	return stop
}

func (w *world) leaseLost(worker string) {
	w.Helper()
	_, err := w.s.Renew(w.ctx, worker, nil, time.Hour)
	w.wantErr(err, store.ErrLeaseLost, "Renew")
}

// waitFor waits until the database's clock has advanced by d.
func (w *world) waitFor(d time.Duration) {
	w.Helper()
	from, err := w.s.Now(w.ctx)
	w.must(err, "Now")
	w.eventually("the database's clock has gone on", func() bool {
		now, err := w.s.Now(w.ctx)
		w.must(err, "Now")
		return now.Sub(from) > d
	})
}
