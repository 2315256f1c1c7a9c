package sqlstore

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// count counts a run as so many running and ready runs more, if its turn in the
// session has come.
func (s *Store) count(run string, running, ready int) Step {
	return step(s.d.Counters.Add, run, running, ready)
}

// holdWorker keeps the lease of a worker from being ended while it claims, and
// tells whether it has one.
func (s *Store) holdWorker(id string, worker *string, alive *bool) Step {
	return into(worker, alive, value[string], `select l.id from workers l where l.id = $1 and l.lease_until > `+s.d.Now+s.d.Share, id)
}

// Claim gives ready runs to a worker.
func (s *Store) Claim(ctx context.Context, c store.ClaimRequest) ([]store.Claim, error) {
	if c.Max <= 0 {
		return nil, nil
	}
	return change(ctx, s, "claiming runs", func(ctx context.Context, q Querier) ([]store.Claim, error) {
		var alive bool
		var worker string
		work := &claiming{s: s, ClaimRequest: c, wait: true}
		if err := run(ctx, q, s.holdWorker(c.WorkerID, &worker, &alive), work.nextTurns()); err != nil {
			return nil, err
		}
		if !alive {
			return nil, store.ErrLeaseLost
		}
		return work.claim(ctx, q)
	})
}

// claiming gives out runs, each to the organisation whose turn it is.
type claiming struct {
	s *Store
	store.ClaimRequest
	wait bool // for the counters of the first organisation, while none are held

	turns  []turn
	offset int
	claims []store.Claim
}

// turn is an organisation that waits for its turn, and how it fares.
type turn struct {
	org             string
	running, served int64
}

func scanTurn(r row) (t turn, err error) { return t, r.Scan(&t.org, &t.running, &t.served) }

// compare puts those who run least first, then those who were served longest ago.
func (t turn) compare(o turn) int {
	return cmp.Or(cmp.Compare(t.running, o.running), cmp.Compare(t.served, o.served), cmp.Compare(t.org, o.org))
}

// turnsPage is how many organisations are looked at in one go.
const turnsPage = 64

func (c *claiming) nextTurns() Step {
	offset := c.offset
	c.turns, c.offset = nil, c.offset+turnsPage
	return collect(&c.turns, scanTurn, c.s.d.Counters.NextOrgs, limitOf(c.PerOrg), turnsPage, offset)
}

// claim works off the turns that were read, and reads more while there are any.
func (c *claiming) claim(ctx context.Context, q Querier) ([]store.Claim, error) {
	for {
		full := len(c.turns) >= turnsPage
		for len(c.turns) > 0 {
			if len(c.claims) == c.Max {
				return c.claims, nil
			}
			slices.SortFunc(c.turns, turn.compare)
			want := c.share()
			if got, err := c.claimFrom(ctx, q, &c.turns[0], want); err != nil {
				return nil, err
			} else if got < want {
				c.turns = c.turns[1:]
			}
		}
		if !full {
			return c.claims, nil
		}
		if err := run(ctx, q, c.nextTurns()); err != nil {
			return nil, err
		}
	}
}

// share is how many runs the first organisation gets before it is another's
// turn.
func (c *claiming) share() int {
	n := min(c.Max-len(c.claims), c.s.d.Counters.MaxBatch)
	if len(c.turns) > 1 {
		n = int(min(int64(n), max(1, c.turns[1].running-c.turns[0].running)))
	}
	return n
}

// limitOf reads a limit, of which 0 is none.
func limitOf(n int) int64 {
	if n <= 0 {
		return math.MaxInt32
	}
	return int64(n)
}

// claimFrom claims up to n runs of an organisation, whose counters it holds:
// they are the lock under which limits are kept. It claims none when somebody
// else holds them and it does not wait.
func (c *claiming) claimFrom(ctx context.Context, q Querier, t *turn, n int) (int, error) {
	counters := c.s.d.Counters
	hold := counters.TryLock
	if c.wait {
		hold = counters.Lock
	}
	c.wait = false
	var steps []Step
	var holder string
	held, open := true, false
	if hold != "" {
		steps = append(steps, into(&holder, &held, value[string], hold, t.org))
	}
	if counters.ApplyChanges != "" {
		steps = append(steps, step(counters.ApplyChanges, t.org))
	}
	var now turn
	var ids []string
	err := run(ctx, q, append(steps,
		into(&now, &open, scanTurn, `select org_id, running, served from load
			where org_id = $1 and agent_id = '' and ready > 0 and running < $2`, t.org, limitOf(c.PerOrg)),
		collect(&ids, value[string], counters.Candidates, t.org, limitOf(c.PerAgent), n))...)
	if err != nil || !held || !open {
		return 0, err
	}
	ids = ids[:min(int64(len(ids)), limitOf(c.PerOrg)-now.running)]
	if len(ids) == 0 {
		return 0, nil
	}
	t.running, t.served = now.running+int64(len(ids)), max(now.served+1, micros(c.At))
	return len(ids), c.start(ctx, q, ids, *t)
}

// start makes runs that are locked and ready running ones.
func (c *claiming) start(ctx context.Context, q Querier, ids []string, t turn) error {
	runs := make([]store.Run, len(ids))
	events := make([]*transition, len(ids))
	found := false
	running := EncodeEvents([]stint.Event{statusEvent(stint.Running, c.At)})
	steps := []Step{step(`update load set served = $2 where org_id = $1 and agent_id = ''`, t.org, t.served)}
	for i, id := range ids {
		events[i] = &transition{run: id, starts: true, events: running}
		steps = append(steps,
			step(`update runs set status = 'running', epoch = epoch + 1, worker_id = $2, started_at = $3, claimed_at = `+c.s.d.Now+`
				where id = $1`, id, c.WorkerID, micros(c.At)),
			into(&runs[i], &found, scanRun, selectRuns+` where l.id = $1`, id),
			events[i].insert(),
			c.s.count(id, 1, -1))
	}
	if err := run(ctx, q, steps...); err != nil {
		return err
	}
	for i, r := range runs {
		if err := events[i].settle(ctx, q); err != nil {
			return err
		}
		c.claims = append(c.claims, store.Claim{Run: r, Position: store.Position{RunID: r.ID, Epoch: r.Epoch, After: events[i].head}})
	}
	return nil
}
