package sqlstore

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// CreateRun stores a pending run. If claim is not nil, it claims ready runs in the
// same transaction.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun, claim *store.ClaimRequest) ([]store.Claim, error) {
	return change(ctx, s, "creating a run", func(ctx context.Context, q Querier) ([]store.Claim, error) {
		if claim == nil || claim.Max <= 0 {
			if err := run(ctx, q, s.insertPending(n)...); err != nil {
				return nil, err
			}
			return nil, runAtEnd(ctx, q, s.count(n.ID, 0, 1))
		}
		var alive bool
		steps := append([]Step{s.holdWorker(claim.WorkerID, &alive)}, s.insertPending(n)...)
		// Creation does not wait for concurrent claims. If another claim holds
		// the counters, a later claim assigns this run.
		c := &claimer{s: s, ClaimRequest: *claim}
		if err := run(ctx, q, append(steps, s.count(n.ID, 0, 1), c.readOrgs())...); err != nil || !alive {
			return nil, err
		}
		return c.claim(ctx, q)
	})
}

func (s *Store) insertPending(n store.NewRun) []Step {
	steps := append([]Step{enterSession(n)}, insertRun(n)...)
	steps = append(steps, s.mount(n)...)
	steps = append(steps, insertFirst(n.ID, EncodeEvents([]stint.Event{statusEvent(stint.Pending, n.CreatedAt)})))
	if n.Answer != nil {
		steps = append(steps, storeAnswer(n.OrgID, n.Key, n.Claimed, *n.Answer))
	}
	return steps
}
