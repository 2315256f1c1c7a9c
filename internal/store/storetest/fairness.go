package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var fairnessCases = []testCase{
	{"a single run is claimed next although another organisation has a thousand", func(w *world) {
		big, small := w.tenant("big"), w.tenant("small")
		big.createMany(1000, priority(9))
		worker := w.worker()
		w.diff("running runs", 3, len(w.claim(worker, 3)))
		lone := small.create()
		w.diff("claimed next", lone.ID, w.claimOne(worker).Run.ID)
	}},
	{"a claim of several runs prefers the organisation with the fewest running", func(w *world) {
		big, small := w.tenant("big"), w.tenant("small")
		big.createMany(30, priority(9))
		worker := w.worker()
		w.claim(worker, 5)
		lone := small.create()
		w.diff("in the next batch", true, slices.Contains(claimed(w.claim(worker, 4)), lone.ID))
	}},
	{"organisations with ready runs get equal shares", func(w *world) {
		tenants := []*tenant{w.tenant("a"), w.tenant("b"), w.tenant("c")}
		for _, o := range tenants {
			o.createMany(6)
		}
		worker, running := w.worker(), make(map[string]int)
		for range 18 {
			running[w.claimOne(worker).Run.OrgID]++
			low, high := running[tenants[0].org], running[tenants[0].org]
			for _, o := range tenants {
				low, high = min(low, running[o.org]), max(high, running[o.org])
			}
			if high-low > 1 {
				w.Fatalf("running runs differ by %d: %v", high-low, running)
			}
		}
	}},
	{"an organisation whose run ended comes first again", func(w *world) {
		a, b := w.tenant("a"), w.tenant("b")
		a.createMany(4)
		b.createMany(4)
		worker := w.worker()
		var held []store.Claim
		for range 4 {
			held = append(held, w.claimOne(worker))
		}
		ends := []func(c store.Claim){
			func(c store.Claim) { w.finish(c.Position, w.outcome(stint.Completed)) },
			func(c store.Claim) { w.cancel(c.Run.OrgID, c.Run.ID) },
		}
		for i, end := range ends {
			end(held[i])
			next := w.claimOne(worker)
			w.diff("organisation of the next", held[i].Run.OrgID, next.Run.OrgID)
		}
	}},
	{"the organisation with the fewest running runs comes first even if served last", func(w *world) {
		a, b := w.tenant("a"), w.tenant("b")
		a.createMany(3)
		worker := w.worker()
		w.diff("runs of a", 2, len(w.claim(worker, 2)))
		for range 3 {
			b.create()
			c := w.claimOne(worker)
			w.diff("organisation of the next", b.org, c.Run.OrgID)
			w.finish(c.Position, w.outcome(stint.Completed))
		}
		w.diff("organisation of the next", a.org, w.claimOne(worker).Run.OrgID)
	}},
	{"PerOrg limits runs across claims and workers", func(w *world) {
		a, b := w.tenant("a"), w.tenant("b")
		a.createMany(10)
		lone := b.create()
		w.diff("claims", 4, len(w.claimLimited(3, 0, 10)))
		w.diff("claims of the next worker", 0, len(w.claimLimited(3, 0, 10)))
		w.diff("status in the other organisation", stint.Running, b.run(lone.ID).Status)
		w.diff("claims without a limit", 7, len(w.claimLimited(0, 0, 10)))
	}},
	{"PerAgent limits one agent and not the others", func(w *world) {
		reviewer := w.home.newAgent("reviewer")
		w.home.createMany(10, priority(9))
		w.home.createMany(3, ofAgent(reviewer))
		w.diff("claims", 4, len(w.claimLimited(0, 2, 20)))
		w.diff("claims of the next worker", 0, len(w.claimLimited(0, 2, 20)))
	}},
	{"every end of a run frees its slot", func(w *world) {
		w.home.createMany(12, retries(1))
		ends := []func(c store.Claim){
			func(c store.Claim) { w.finish(c.Position, w.outcome(stint.Failed)) },
			func(c store.Claim) { w.cancel(c.Run.OrgID, c.Run.ID) },
			func(c store.Claim) { w.lose(c.Run.WorkerID) },
			func(c store.Claim) { w.lose(c.Run.WorkerID) },
		}
		for i, end := range ends {
			claims := w.claimLimited(1, 1, 5)
			if len(claims) != 1 {
				w.Fatalf("slot %d: Claim returned %d runs, want 1", i, len(claims))
			}
			w.diff("claims while it runs", 0, len(w.claimLimited(1, 1, 5)))
			end(claims[0])
		}
		w.diff("claims after all", 1, len(w.claimLimited(1, 1, 5)))
	}},
	{"limits hold during concurrent claims and finishes", limitsHold},
}

func (w *world) claimLimited(perOrg, perAgent, limit int) []store.Claim {
	w.Helper()
	claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: w.worker(), Max: limit, PerOrg: perOrg, PerAgent: perAgent, At: w.now()})
	w.must(err, "Claim")
	return claims
}

// limitsHold checks the limits per organisation and agent while workers claim and finish
// runs. A worker counts a run only between the end of Claim and the start of Finish, so the
// counted runs never exceed the running runs in the store.
func limitsHold(w *world) {
	const perOrg, perAgent = 5, 3
	reviewer := w.home.newAgent("reviewer")
	ids := append(w.home.createMany(60), w.home.createMany(60, ofAgent(reviewer))...)
	ids = append(ids, w.tenant("other").createMany(40)...)
	held := newRunCounter()
	workers := make([]string, 12)
	for i := range workers {
		workers[i] = w.worker()
	}
	held.drain(w, len(ids), len(workers), func(i int) store.ClaimRequest {
		return store.ClaimRequest{WorkerID: workers[i], Max: 1 + i%3, PerOrg: perOrg, PerAgent: perAgent, At: w.now()}
	})
	for key, peak := range held.peak {
		limit := perOrg
		if key[:3] == stint.PrefixAgent {
			limit = perAgent
		}
		if peak > limit {
			w.Errorf("%s had %d runs at once, the limit is %d", key, peak, limit)
		}
	}
}

// runCounter counts the runs that workers hold. The keys of its maps are IDs of
// organisations and IDs of agents.
type runCounter struct {
	mu        sync.Mutex     // guards the fields below
	now, peak map[string]int // current and greatest number of held runs
	ended     int            // number of runs that workers have stopped counting
}

func newRunCounter() *runCounter {
	return &runCounter{peak: make(map[string]int), now: make(map[string]int)}
}

// drain runs n workers that claim and finish runs, until all runs have ended. all is the
// number of runs, and request returns the claim request of worker i.
func (c *runCounter) drain(w *world, all, n int, request func(i int) store.ClaimRequest) {
	w.Helper()
	w.concurrently(n, func(i int) error {
		for c.open(all) {
			claims, err := w.s.Claim(w.ctx, request(i))
			if err != nil {
				return fmt.Errorf("claim: %w", err)
			}
			c.take(claims)
			if err := c.work(w, claims); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *runCounter) open(all int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended < all
}

func (c *runCounter) take(claims []store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, claim := range claims {
		for _, key := range []string{claim.Run.OrgID, claim.Run.AgentID} {
			c.now[key]++
			c.peak[key] = max(c.peak[key], c.now[key])
		}
	}
}

// work appends to each claimed run, stops counting the run, and finishes it.
func (c *runCounter) work(w *world, claims []store.Claim) error {
	for _, claim := range claims {
		head, err := w.s.Append(w.ctx, claim.Position, w.batch("at work"))
		if err != nil {
			return fmt.Errorf("Append to %s: %w", claim.Run.ID, err)
		}
		claim.Position.After = head
		c.drop(claim)
		if _, err := w.s.Finish(w.ctx, claim.Position, w.outcome(stint.Completed)); err != nil {
			return fmt.Errorf("Finish of %s: %w", claim.Run.ID, err)
		}
	}
	return nil
}

func (c *runCounter) drop(claim store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	c.now[claim.Run.OrgID]--
	c.now[claim.Run.AgentID]--
}
