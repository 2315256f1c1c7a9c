package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var claimCases = []testCase{
	{"a run is claimed only by a worker with its labels", func(w *world) {
		worker := w.worker()
		claim := func(labels map[string]string) (ids []string) {
			claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 10, At: w.now(), Labels: labels})
			w.must(err, "Claim")
			for _, c := range claims {
				ids = append(ids, c.Run.ID)
			}
			return ids
		}
		placed := w.home.create(func(r *store.NewRun) { r.Placement = map[string]string{"zone": "eu", "gpu": `a"b`} })
		other := w.home.create(func(r *store.NewRun) { r.Placement = map[string]string{"zone": "us"} })
		free := w.home.create()
		w.diff("without labels", []string{free.ID}, claim(nil))
		w.diff("with one of two labels", []string(nil), claim(map[string]string{"zone": "eu"}))
		w.diff("with another value", []string(nil), claim(map[string]string{"zone": "eu", "gpu": "no"}))
		w.diff("with the labels and another", []string{placed.ID}, claim(map[string]string{"zone": "eu", "gpu": `a"b`, "disk": "fast"}))
		w.diff("with the other labels", []string{other.ID}, claim(map[string]string{"zone": "us"}))
		late := w.home.newRun()
		late.Placement = map[string]string{"zone": "eu"}
		claims, err := w.s.CreateRun(w.ctx, late, &store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
		w.must(err, "CreateRun")
		w.diff("claims at creation", 0, len(claims))
		w.diff("later", []string{late.ID}, claim(map[string]string{"zone": "eu"}))
		unusual := map[string]string{"gpu": "a\x00b\x01"}
		placed, free = w.home.create(func(r *store.NewRun) { r.Placement = unusual }), w.home.create()
		w.diff("without an unusual label", []string{free.ID}, claim(nil))
		w.diff("with a similar label", []string(nil), claim(map[string]string{"gpu": "a\x010b\x01"}))
		w.diff("with the unusual label", []string{placed.ID}, claim(unusual))
	}},
	{"Claim leaves out runs of the given sessions", func(w *world) {
		first := w.home.start()
		held, next := w.home.create(inSession(first.Run.SessionID)), w.home.create()
		w.finish(first.Position, w.outcome(stint.Completed, w.home.checkpoint(first.Run)))
		c, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: w.worker(), Max: 5, At: w.now(), Without: []string{"sess_x", held.SessionID}})
		w.must(err, "Claim")
		if len(c) != 1 || c[0].Run.ID != next.ID {
			w.Errorf("Claim returned %d runs, want only %s", len(c), next.ID)
		}
		c, err = w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: w.worker(), Max: 5, At: w.now(), Without: []string{held.SessionID}})
		w.must(err, "Claim")
		w.diff("claims of a session that is left out", 0, len(c))
		w.diff("claimed run", held.ID, w.claimOne(w.worker()).Run.ID)
	}},
	{"Claim starts a pending run", func(w *world) {
		n := w.home.create(withAllFields, w.home.mounting("data"))
		worker, at := w.worker(), w.now()
		claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 1, At: at})
		w.must(err, "Claim")
		want := n.Run
		want.Status, want.StartedAt, want.Epoch, want.WorkerID = stint.Running, &at, 1, worker
		want.AttemptStartedAt, want.Worker, want.Attempt = &at, &worker, 1
		want.Attempts = []stint.Attempt{{Number: 1, WorkerID: worker, StartedAt: at}}
		w.diff("claims", []store.Claim{{Run: want, Position: store.Position{RunID: n.ID, Epoch: 1, After: 2}}}, claims)
		w.diff("run", want, w.home.checkRun(n.ID))
		w.diff("events", []string{"pending", "running"}, w.kinds(w.events(n.ID), 1))
		w.diff("time of the event", at, w.events(n.ID)[1].At)
	}},
	{"Claim returns nothing if no run is ready", func(w *world) {
		w.diff("claims", 0, len(w.claim(w.worker(), 5)))
		c := w.home.start()
		w.diff("claims of a running run", 0, len(w.claim(w.worker(), 5)))
		w.finish(c.Position, w.outcome(stint.Completed))
		w.diff("claims of an ended run", 0, len(w.claim(w.worker(), 5)))
	}},
	{"Claim returns at most Max runs", func(w *world) {
		w.home.createMany(7)
		worker := w.worker()
		for _, step := range []struct{ max, want int }{{0, 0}, {3, 3}, {1, 1}, {10, 3}, {10, 0}} {
			w.diff(fmt.Sprint("claims of ", step.max), step.want, len(w.claim(worker, step.max)))
		}
	}},
	{"fifty concurrent workers claim every run once", func(w *world) {
		ids := w.home.createMany(300)
		workers := make([]string, 50)
		for i := range workers {
			workers[i] = w.worker()
		}
		var mu sync.Mutex // guards owner
		owner := make(map[string]string)
		w.concurrently(len(workers), func(i int) error {
			for {
				claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: workers[i], Max: 1 + i%3, At: w.now()})
				if err != nil || len(claims) == 0 {
					return err
				}
				mu.Lock()
				for _, c := range claims {
					if was, ok := owner[c.Run.ID]; ok {
						err = errors.Join(err, fmt.Errorf("%s was claimed by %s and %s", c.Run.ID, was, workers[i]))
					}
					owner[c.Run.ID] = workers[i]
				}
				mu.Unlock()
				if err != nil {
					return err
				}
			}
		})
		// While another Claim locks the organisation's counters, Claim may return no runs.
		// Therefore some runs may still be pending.
		for _, c := range w.claim(workers[0], 1000) {
			owner[c.Run.ID] = workers[0]
		}
		w.diff("claimed runs", len(ids), len(owner))
		for i, id := range ids {
			if i%10 == 0 {
				r := w.home.checkRun(id)
				w.diff("owner in the row", owner[id], r.WorkerID)
				w.diff("epoch", int64(1), r.Epoch)
			}
		}
	}},
	{"runs are claimed by priority, then age", func(w *world) {
		low := w.home.create()
		mid1, high1 := w.home.create(priority(5)), w.home.create(priority(9))
		mid2, high2 := w.home.create(priority(5)), w.home.create(priority(9))
		worker := w.worker()
		var got []string
		for range 5 {
			got = append(got, w.claimOne(worker).Run.ID)
		}
		w.diff("order", []string{high1.ID, high2.ID, mid1.ID, mid2.ID, low.ID}, got)
	}},
	{"runs of all agents of an organisation are claimed by priority, then age", func(w *world) {
		reviewer := w.home.newAgent("reviewer")
		first, second := w.home.create(), w.home.create(ofAgent(reviewer))
		high, low := w.home.create(ofAgent(reviewer), priority(3)), w.home.create(priority(2))
		w.diff("order", []string{high.ID, low.ID, first.ID, second.ID}, claimed(w.claim(w.worker(), 4)))
	}},
	{"one claim of several runs has the same order", func(w *world) {
		low, high := w.home.create(), w.home.create(priority(9))
		mid, last := w.home.create(priority(5)), w.home.create()
		w.diff("order", []string{high.ID, mid.ID, low.ID, last.ID}, claimed(w.claim(w.worker(), 4)))
	}},
	{"a worker whose lease was ended claims nothing", func(w *world) {
		n := w.home.create()
		worker := w.worker()
		w.must(w.s.EndWorker(w.ctx, worker), "EndWorker")
		w.claimsNothing(worker)
		w.claimsNothing(w.ids.New(stint.PrefixWorker)) // never registered
		w.diff("status", stint.Pending, w.home.checkRun(n.ID).Status)
	}},
	{"CreateRun by a worker whose lease was ended claims nothing", func(w *world) {
		worker := w.worker()
		w.must(w.s.EndWorker(w.ctx, worker), "EndWorker")
		claims, err := w.s.CreateRun(w.ctx, w.home.newRun(), &store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
		if len(claims) > 0 || (err != nil && !errors.Is(err, store.ErrLeaseLost)) {
			w.Errorf("CreateRun returned %d claims and %v, want none", len(claims), err)
		}
	}},
}

// claimsNothing checks that Claim returns no runs for the worker. Claim may also return
// ErrLeaseLost.
func (w *world) claimsNothing(worker string) {
	w.Helper()
	claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
	if len(claims) > 0 || (err != nil && !errors.Is(err, store.ErrLeaseLost)) {
		w.Errorf("Claim returned %d runs and %v, want none", len(claims), err)
	}
}
