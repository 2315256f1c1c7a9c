package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var fairnessCases = []testCase{
	{"one run is claimed next although another organisation has a thousand", func(w *world) {
		big, small := w.tenant("big"), w.tenant("small")
		big.createMany(1000, priority(9))
		worker := w.worker()
		w.diff("running runs", 3, len(w.claim(worker, 3)))
		lone := small.create()
		w.diff("claimed next", lone.ID, w.claimOne(worker).Run.ID)
	}},
	{"a batch does not pass over the organisation that runs least", func(w *world) {
		big, small := w.tenant("big"), w.tenant("small")
		big.createMany(30, priority(9))
		worker := w.worker()
		w.claim(worker, 5)
		lone := small.create()
		w.diff("in the next batch", true, slices.Contains(claimed(w.claim(worker, 4)), lone.ID))
	}},
	{"organisations that have work run the same number", func(w *world) {
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
	{"an organisation that ends a run comes before the others again", func(w *world) {
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
	{"who runs least comes first, also when it was served last", func(w *world) {
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
	{"PerOrg bounds a batch, across batches and workers", func(w *world) {
		a, b := w.tenant("a"), w.tenant("b")
		a.createMany(10)
		lone := b.create()
		w.diff("claims", 4, len(w.claimLimited(3, 0, 10)))
		w.diff("claims of the next worker", 0, len(w.claimLimited(3, 0, 10)))
		w.diff("status in the other organisation", stint.Running, b.run(lone.ID).Status)
		w.diff("claims without a limit", 7, len(w.claimLimited(0, 0, 10)))
	}},
	{"PerAgent bounds an agent and lets others pass", func(w *world) {
		reviewer := w.home.newAgent("reviewer")
		w.home.createMany(10, priority(9))
		w.home.createMany(3, ofAgent(reviewer))
		w.diff("claims", 4, len(w.claimLimited(0, 2, 20)))
		w.diff("claims of the next worker", 0, len(w.claimLimited(0, 2, 20)))
	}},
	{"every end frees its place", func(w *world) {
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
				w.Fatalf("place %d: Claim gave %d runs, want 1", i, len(claims))
			}
			w.diff("claims while it runs", 0, len(w.claimLimited(1, 1, 5)))
			end(claims[0])
		}
		w.diff("claims after all", 1, len(w.claimLimited(1, 1, 5)))
	}},
	{"limits hold while many claim and finish", limitsHold},
}

func (w *world) claimLimited(perOrg, perAgent, limit int) []store.Claim {
	w.Helper()
	claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: w.worker(), Max: limit, PerOrg: perOrg, PerAgent: perAgent, At: w.now()})
	w.must(err, "Claim")
	return claims
}

// limitsHold counts what clients hold: never more than what the store counts.
func limitsHold(w *world) {
	const perOrg, perAgent = 5, 3
	reviewer := w.home.newAgent("reviewer")
	ids := append(w.home.createMany(60), w.home.createMany(60, ofAgent(reviewer))...)
	ids = append(ids, w.tenant("other").createMany(40)...)
	held := newCensus()
	workers := make([]string, 12)
	for i := range workers {
		workers[i] = w.worker()
	}
	held.drain(w, len(ids), len(workers), func(i int) store.ClaimRequest {
		return store.ClaimRequest{WorkerID: workers[i], Max: 1 + i%3, PerOrg: perOrg, PerAgent: perAgent, At: w.now()}
	})
	for key, most := range held.most {
		limit := perOrg
		if key[:3] == stint.PrefixAgent {
			limit = perAgent
		}
		if most > limit {
			w.Errorf("%s had %d runs at once, the limit is %d", key, most, limit)
		}
	}
}

// census counts runs that are held, by organisation and agent.
type census struct {
	mu        sync.Mutex // guards what follows
	now, most map[string]int
	ended     int
}

func newCensus() *census {
	return &census{most: make(map[string]int), now: make(map[string]int)}
}

// drain lets n workers claim and end runs until all have ended.
func (c *census) drain(w *world, all, n int, claimer func(i int) store.ClaimRequest) {
	w.Helper()
	w.together(n, func(i int) error {
		for c.open(all) {
			claims, err := w.s.Claim(w.ctx, claimer(i))
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

func (c *census) open(all int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended < all
}

func (c *census) take(claims []store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, claim := range claims {
		for _, key := range []string{claim.Run.OrgID, claim.Run.AgentID} {
			c.now[key]++
			c.most[key] = max(c.most[key], c.now[key])
		}
	}
}

// work holds each run for an append, counts it out and finishes it.
func (c *census) work(w *world, claims []store.Claim) error {
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

func (c *census) drop(claim store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	c.now[claim.Run.OrgID]--
	c.now[claim.Run.AgentID]--
}
