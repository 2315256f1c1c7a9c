package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// count returns a step that adds running and ready to the counters of a run's
// organisation and agent, unless the run waits for an earlier run of its session.
func (s *Store) count(run string, running, ready int) Step {
	return step(s.d.Counters.Add, run, running, ready)
}

// holdWorker returns a step that locks a worker's row, so that its lease cannot be
// ended during the claim, and sets alive to whether the lease is valid.
func (s *Store) holdWorker(id string, alive *bool) Step {
	return exists(alive, `select l.id from workers l where l.id = $1 and l.lease_until > `+s.d.Now+s.d.Share, id)
}

// Claim assigns ready runs to a worker.
func (s *Store) Claim(ctx context.Context, c store.ClaimRequest) ([]store.Claim, error) {
	if c.Max <= 0 {
		return nil, nil
	}
	return change(ctx, s, "claiming runs", func(ctx context.Context, q Querier) ([]store.Claim, error) {
		var alive bool
		work := &claimer{s: s, ClaimRequest: c, wait: true}
		if err := run(ctx, q, s.holdWorker(c.WorkerID, &alive), work.readOrgs()); err != nil {
			return nil, err
		}
		if !alive {
			return nil, store.ErrLeaseLost
		}
		return work.claim(ctx, q)
	})
}

// claimer claims runs in fair order: it takes the next runs always from the
// organisation with the fewest running runs.
type claimer struct {
	s *Store
	store.ClaimRequest
	// wait is set if the next call of claimFrom waits for the lock of an organisation's
	// counters. At most the first call waits, because before it the transaction holds
	// no such lock.
	wait bool

	orgs   []orgLoad
	offset int
	claims []store.Claim
}

// orgLoad is an organisation with ready runs and its counters.
type orgLoad struct {
	org             string
	running, served int64
}

func scanOrgLoad(r Row) (o orgLoad, err error) { return o, r.Scan(&o.org, &o.running, &o.served) }

// compare orders organisations by the number of running runs, then by the time at
// which they last got a run, then by ID.
func (o orgLoad) compare(p orgLoad) int {
	return cmp.Or(cmp.Compare(o.running, p.running), cmp.Compare(o.served, p.served), cmp.Compare(o.org, p.org))
}

// orgsPage is the number of organisations per query.
const orgsPage = 64

func (c *claimer) readOrgs() Step {
	offset := c.offset
	c.orgs, c.offset = nil, c.offset+orgsPage
	return collect(&c.orgs, scanOrgLoad, c.s.d.Counters.NextOrgs, limitOf(c.PerOrg), orgsPage, offset)
}

// claim claims runs of the organisations in c.orgs, and reads further organisations
// until c.Max runs are claimed or there are no more organisations.
func (c *claimer) claim(ctx context.Context, q Querier) ([]store.Claim, error) {
	for {
		full := len(c.orgs) >= orgsPage
		for len(c.orgs) > 0 {
			if len(c.claims) == c.Max {
				return c.claims, nil
			}
			slices.SortFunc(c.orgs, orgLoad.compare)
			want := c.share()
			if got, err := c.claimFrom(ctx, q, &c.orgs[0], want); err != nil {
				return nil, err
			} else if got < want {
				c.orgs = c.orgs[1:]
			}
		}
		if !full {
			return c.claims, nil
		}
		if err := run(ctx, q, c.readOrgs()); err != nil {
			return nil, err
		}
	}
}

// share returns the number of runs to claim from the first organisation before the
// organisations are sorted again.
func (c *claimer) share() int {
	n := min(c.Max-len(c.claims), c.s.d.Counters.MaxBatch)
	if len(c.orgs) > 1 {
		n = int(min(int64(n), max(1, c.orgs[1].running-c.orgs[0].running)))
	}
	return n
}

// limitOf returns n as the argument of a statement, and a very large number if n is 0,
// which means that there is no limit.
func limitOf(n int) int64 {
	if n <= 0 {
		return math.MaxInt32
	}
	return int64(n)
}

// placementOrNil returns the column value of the labels that a run requires.
func placementOrNil(labels map[string]string) any {
	if len(labels) == 0 {
		return nil
	}
	return escapedPairs(labels)
}

// claimFrom claims up to n runs of an organisation and returns their number. It
// locks the organisation's counters, which protects the limits. If another
// transaction holds the lock and c.wait is not set, it claims none.
func (c *claimer) claimFrom(ctx context.Context, q Querier, t *orgLoad, n int) (int, error) {
	counters := c.s.d.Counters
	lock := counters.TryLock
	if c.wait {
		lock = counters.Lock
	}
	c.wait = false
	held, open := true, false
	var now orgLoad
	var ids []candidate
	err := run(ctx, q,
		exists(&held, lock, t.org),
		step(counters.ApplyChanges, t.org),
		into(&now, &open, scanOrgLoad, `select org_id, running, served from load
			where org_id = $1 and agent_id = '' and ready > 0 and running < $2`, t.org, limitOf(c.PerOrg)),
		c.candidates(&ids, t.org, n))
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

// candidate is a run to be claimed, its session, the artifact that it inherits from the
// session, and the number of its last attempt.
type candidate struct {
	id, session, inherits string
	epoch                 int64
}

func scanCandidate(r Row) (c candidate, err error) {
	return c, r.Scan(&c.id, &c.session, &c.inherits, &c.epoch)
}

// candidates returns a step that reads the runs to be claimed next.
func (c *claimer) candidates(list *[]candidate, org string, n int) Step {
	statement, args := c.s.d.Counters.Candidates, []any{org, limitOf(c.PerAgent), n, escapedPairs(c.Labels)}
	if len(c.Without) > 0 {
		var params []string
		for _, session := range c.Without {
			args = append(args, session)
			params = append(params, fmt.Sprintf("$%d", len(args)))
		}
		const ready = "l.ready = 1"
		statement = strings.Replace(statement, ready, ready+" and l.session_id not in ("+strings.Join(params, ", ")+")", 1)
	}
	return collect(list, scanCandidate, statement, args...)
}

// start changes locked, ready runs to running.
func (c *claimer) start(ctx context.Context, q Querier, list []candidate, t orgLoad) error {
	claims := make([]store.Claim, len(list))
	events := make([]*transition, len(list))
	found := false
	running := EncodeEvents([]stint.Event{statusEvent(stint.Running, c.At)})
	steps := []Step{step(`update load set served = $2 where org_id = $1 and agent_id = ''`, t.org, t.served)}
	for i, next := range list {
		events[i] = &transition{run: next.id, starts: true, events: running}
		if next.inherits != "" {
			start, note, err := sessionStart(ctx, q, t.org, next)
			if err != nil {
				return err
			}
			claims[i].Start = start
			if next.epoch > 0 {
				note = "" // the event of the first attempt has it
			}
			events[i].events = EncodeEvents([]stint.Event{{Type: stint.EventStatus, At: c.At, Data: encode(stint.StatusData{Status: stint.Running, Note: note})}})
		}
		steps = append(steps,
			step(`update runs set status = 'running', epoch = epoch + 1, worker_id = $2, started_at = coalesce(started_at, $3), attempt_started_at = $3,
					retry_at = null, claimed_at = `+c.s.d.Now+`
				where id = $1`, next.id, c.WorkerID, micros(c.At)),
			into(&claims[i].Run, &found, scanRun, selectRuns+` where l.id = $1`, next.id),
			events[i].insert(),
			c.s.count(next.id, 1, -1))
	}
	if err := run(ctx, q, steps...); err != nil {
		return err
	}
	for i := range claims {
		if err := events[i].settle(ctx, q); err != nil {
			return err
		}
		r := &claims[i].Run
		claims[i].Position = store.Position{RunID: r.ID, Epoch: r.Epoch, After: events[i].head}
	}
	c.claims = append(c.claims, claims...)
	return nil
}
