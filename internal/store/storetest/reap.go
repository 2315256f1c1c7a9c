package storetest

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var reapCases = []testCase{
	{"a run that lost its worker fails with worker_lost", func(w *world) {
		c := w.home.start()
		at := w.append(c.Position, w.batch("one"))
		w.diff("lost", []string{c.Run.ID}, w.lose(c.Run.WorkerID))
		r := w.home.checkRun(c.Run.ID)
		w.diff("status", stint.Failed, r.Status)
		w.diff("reason", ptr(stint.ReasonWorkerLost), r.StatusReason)
		w.wantError(c.Run.ID, r)
		w.diff("events", []string{"pending", "running", "output", "error", "failed", "complete"}, w.kinds(w.events(c.Run.ID), 1))
		_, err := w.s.Append(w.ctx, at, w.batch("late"))
		w.wantFenced(err, c.Run.ID, "Append after the loss")
		_, err = w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
		w.wantFenced(err, c.Run.ID, "Finish after the loss")
	}},
	{"a lost run is requeued while its epoch is not above MaxRetries", func(w *world) {
		n := w.home.create(retries(2))
		for epoch := int64(1); epoch <= 2; epoch++ {
			c := w.claimOne(w.worker())
			w.diff("epoch", epoch, c.Position.Epoch)
			w.diff("lost", []string{n.ID}, w.lose(c.Run.WorkerID))
			r := w.home.checkRun(n.ID)
			w.diff("status", stint.Pending, r.Status)
			w.diff("completedAt", (*stint.Time)(nil), r.CompletedAt)
		}
		last := w.claimOne(w.worker())
		w.diff("position", store.Position{RunID: n.ID, Epoch: 3, After: 6}, last.Position)
		w.lose(last.Run.WorkerID)
		w.diff("status", stint.Failed, w.home.checkRun(n.ID).Status)
		want := []string{"pending", "running", "pending", "running", "pending", "running", "error", "failed", "complete"}
		w.diff("events", want, w.kinds(w.events(n.ID), 1))
	}},
	{"a lease that expired by the database's clock is reaped", func(w *world) {
		n := w.home.create()
		var c store.Claim
		w.eventually("a short lease claimed the run", func() bool {
			claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: w.workerOn("host-a", 150*time.Millisecond), Max: 1, At: w.now()})
			if err == nil && len(claims) == 1 {
				c = claims[0]
			}
			return len(claims) == 1
		})
		var lost []string
		w.eventually("the lease was reaped", func() bool {
			var err error
			lost, err = w.s.Reap(w.ctx, w.now(), 10)
			w.must(err, "Reap")
			return len(lost) > 0
		})
		w.diff("lost", []string{n.ID}, lost)
		w.diff("reason", ptr(stint.ReasonWorkerLost), w.home.checkRun(c.Run.ID).StatusReason)
	}},
	{"Reap ignores the given time for leases", func(w *world) {
		c := w.home.start()
		lost, err := w.s.Reap(w.ctx, later(w.now(), 24*365*time.Hour), 10)
		w.must(err, "Reap")
		w.diff("lost", 0, len(lost))
		w.append(c.Position, w.batch("still mine"))
	}},
	{"Reap handles only runs that the worker still owns", func(w *world) {
		worker := w.worker()
		var claims []store.Claim
		for range 3 {
			w.home.create()
			claims = append(claims, w.claimOne(worker))
		}
		w.finish(claims[0].Position, w.outcome(stint.Completed))
		w.cancel(w.home.org, claims[1].Run.ID)
		w.diff("lost", []string{claims[2].Run.ID}, w.lose(worker))
		w.diff("status of the finished run", stint.Completed, w.home.checkRun(claims[0].Run.ID).Status)
		w.diff("status of the cancelled run", stint.Cancelled, w.home.checkRun(claims[1].Run.ID).Status)
	}},
	{"Reap reaps at most n runs and none twice", func(w *world) {
		ids := w.home.createMany(5)
		worker := w.worker()
		w.claim(worker, 5)
		w.must(w.s.EndWorker(w.ctx, worker), "EndWorker")
		var all []string
		for _, want := range []int{2, 2, 1, 0} {
			lost, err := w.s.Reap(w.ctx, w.now(), 2)
			w.must(err, "Reap")
			w.diff("lost at once", want, len(lost))
			all = append(all, lost...)
		}
		w.diff("lost", set(ids), set(all))
		w.leaseLost(worker)
	}},
	{"concurrent reaps take each run once", func(w *world) {
		ids := w.home.createMany(24)
		for range 4 {
			c := w.claim(w.worker(), 6)
			w.must(w.s.EndWorker(w.ctx, c[0].Run.WorkerID), "EndWorker")
		}
		lost := make([][]string, 8)
		w.concurrently(len(lost), func(i int) error {
			for {
				some, err := w.s.Reap(w.ctx, w.now(), 3)
				if err != nil || len(some) == 0 {
					return err
				}
				lost[i] = append(lost[i], some...)
			}
		})
		rest, err := w.s.Reap(w.ctx, w.now(), 100) // the concurrent calls may have skipped runs that were locked
		w.must(err, "Reap")
		for _, some := range lost {
			rest = append(rest, some...)
		}
		w.diff("lost in total", len(ids), len(rest))
		w.diff("lost", set(ids), set(rest))
		for _, id := range ids {
			w.diff("events", []string{"pending", "running", "error", "failed", "complete"}, w.kinds(w.events(id), 1))
		}
	}},
	{"a worker cannot write after EndWorker", func(w *world) {
		c := w.home.start()
		w.must(w.s.EndWorker(w.ctx, c.Run.WorkerID), "EndWorker")
		_, err := w.s.Append(w.ctx, c.Position, w.batch("late"))
		w.wantFenced(err, c.Run.ID, "Append after EndWorker")
		_, err = w.s.Append(w.ctx, c.Position, w.logBatch("late"))
		w.wantFenced(err, c.Run.ID, "Append of logs after EndWorker")
		_, err = w.s.Finish(w.ctx, c.Position, w.outcome(stint.Completed))
		w.wantFenced(err, c.Run.ID, "Finish after EndWorker")
		w.diff("events", 2, len(w.events(c.Run.ID)))
	}},
	{"of concurrent Reap and Finish exactly one succeeds", func(w *world) {
		for i := range 40 {
			c := w.home.start(retries(i % 2))
			w.must(w.s.EndWorker(w.ctx, c.Run.WorkerID), "EndWorker")
			var lost []string
			finished := false
			w.concurrently(2, func(k int) (err error) {
				if k == 0 {
					lost, err = w.s.Reap(w.ctx, w.now(), 10)
					return err
				}
				_, err = w.s.Finish(w.ctx, c.Position, w.outcome(stint.Completed))
				finished = err == nil
				return ignoreFenced(err)
			})
			if finished == (len(lost) == 1) {
				w.Fatalf("finished: %v, lost: %v", finished, lost)
			}
			r := w.home.checkRun(c.Run.ID)
			w.diff(fmt.Sprintf("completed (race %d)", i), finished, r.Status == stint.Completed)
			if !r.Status.Final() {
				w.cancel(w.home.org, r.ID)
			}
		}
	}},
	{"a requeued run keeps its age", func(w *world) {
		first := w.home.create(retries(1))
		lost := w.claimOne(w.worker())
		w.home.create()
		w.lose(lost.Run.WorkerID)
		w.diff("next", first.ID, w.claimOne(w.worker()).Run.ID)
	}},
}
