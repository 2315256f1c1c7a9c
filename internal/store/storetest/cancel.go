package storetest

import (
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var cancelCases = []testCase{
	{"a cancelled pending run is not claimed", func(w *world) {
		n := w.home.create()
		at := w.now()
		got, err := w.s.Cancel(w.ctx, w.home.org, n.ID, at)
		w.must(err, "Cancel")
		w.diff("returned run", w.home.checkRun(n.ID), got)
		w.diff("status", stint.Cancelled, got.Status)
		w.diff("reason", ptr(stint.ReasonCancelled), got.StatusReason)
		w.diff("completedAt", &at, got.CompletedAt)
		w.diff("startedAt", (*stint.Time)(nil), got.StartedAt)
		w.diff("error", (*string)(nil), got.Error)
		w.diff("events", []string{"pending", "cancelled", "complete"}, w.kinds(w.events(n.ID), 1))
		w.diff("claims", 0, len(w.claim(w.worker(), 1)))
	}},
	{"the owner of a cancelled run is fenced", func(w *world) {
		c := w.home.start()
		at := w.append(c.Position, w.batch("one"))
		got := w.cancel(w.home.org, c.Run.ID)
		w.diff("returned run", w.home.checkRun(c.Run.ID), got)
		_, err := w.s.Append(w.ctx, at, w.batch("late"))
		w.wantFenced(err, c.Run.ID, "Append after cancel")
		_, err = w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
		w.wantFenced(err, c.Run.ID, "Finish after cancel")
		w.diff("events", []string{"pending", "running", "output", "cancelled", "complete"}, w.kinds(w.events(c.Run.ID), 1))
	}},
	{"Cancel of an ended run returns StateError", func(w *world) {
		for _, e := range ends {
			c := w.home.start()
			e.do(w, c)
			before := w.home.checkRun(c.Run.ID)
			_, err := w.s.Cancel(w.ctx, w.home.org, c.Run.ID, w.now())
			w.wantState(err, e.status, "Cancel of a run that is "+e.name)
			w.diff("run", before, w.home.checkRun(c.Run.ID))
		}
	}},
	{"an unknown run is not found", func(w *world) {
		_, err := w.s.Cancel(w.ctx, w.home.org, w.ids.New(stint.PrefixRun), w.now())
		w.wantErr(err, store.ErrNotFound, "Cancel")
	}},
	{"concurrent cancels succeed once, the others return StateError", func(w *world) {
		c := w.home.start()
		won := make([]bool, 12)
		w.concurrently(len(won), func(i int) error {
			_, err := w.s.Cancel(w.ctx, w.home.org, c.Run.ID, w.now())
			won[i] = err == nil
			return endedAs(err, stint.Cancelled)
		})
		w.diff("winners", 1, count(won))
		w.home.checkRun(c.Run.ID)
	}},
	{"of concurrent cancel and finish exactly one succeeds", func(w *world) {
		worker := w.worker()
		var wins [2]int
		for range 100 {
			n := w.home.create()
			c := w.claimOne(worker)
			var won [2]bool
			w.concurrently(2, func(i int) (err error) {
				if i == 0 {
					_, err = w.s.Cancel(w.ctx, w.home.org, n.ID, w.now())
					won[0] = err == nil
					return endedAs(err, stint.Completed)
				}
				_, err = w.s.Finish(w.ctx, c.Position, w.outcome(stint.Completed, w.home.withVersion("out", n.ID)))
				won[1] = err == nil
				return ignoreFenced(err)
			})
			if won[0] == won[1] {
				w.Fatalf("cancel won: %v, finish won: %v", won[0], won[1])
			}
			want := stint.Completed
			if won[0] {
				want = stint.Cancelled
				wins[0]++
			}
			r := w.home.checkRun(n.ID)
			w.diff("status", want, r.Status)
			w.diff("has a version", won[1], r.ArtifactVersion != nil)
		}
		w.real.Logf("cancel won %d of 100 races", wins[0])
	}},
	{"cancel succeeds while the owner keeps appending", func(w *world) {
		w.home.createMany(6)
		claims := w.claim(w.worker(), 6)
		w.concurrently(2*len(claims), func(i int) error {
			c := claims[i/2]
			if i%2 == 0 {
				_, err := w.s.Cancel(w.ctx, w.home.org, c.Run.ID, w.now())
				return err
			}
			for at := c.Position; ; {
				head, err := w.s.Append(w.ctx, at, w.batch("x"))
				if err != nil {
					return ignoreFenced(err)
				}
				at.After = head
			}
		})
		for _, c := range claims {
			w.diff("status", stint.Cancelled, w.home.checkRun(c.Run.ID).Status)
		}
	}},
	{"concurrent cancel and claim are atomic", func(w *world) {
		worker := w.worker()
		for range 40 {
			n := w.home.create()
			var claims []store.Claim
			w.concurrently(2, func(i int) (err error) {
				if i == 0 {
					_, err = w.s.Cancel(w.ctx, w.home.org, n.ID, w.now())
				} else {
					claims, err = w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
				}
				return err
			})
			r := w.home.checkRun(n.ID)
			w.diff("status", stint.Cancelled, r.Status)
			w.diff("epoch", int64(len(claims)), r.Epoch)
			w.diff("started", len(claims) == 1, r.StartedAt != nil)
		}
	}},
}

// endedAs returns nil if err is nil or a *StateError with the given status. Otherwise it
// returns an error.
func endedAs(err error, status stint.Status) error {
	state, ok := errors.AsType[*store.StateError](err)
	if ok && state.Status == status {
		return nil
	}
	if ok {
		return fmt.Errorf("StateError has status %s, want %s", state.Status, status)
	}
	return err
}
