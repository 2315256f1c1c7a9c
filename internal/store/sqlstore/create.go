package sqlstore

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// CreateRun stores a pending run, and claims in the same transaction what a
// claimer would get.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun, claimer *store.ClaimRequest) ([]store.Claim, error) {
	return change(ctx, s, "creating a run", func(ctx context.Context, q Querier) ([]store.Claim, error) {
		if claimer == nil || claimer.Max <= 0 {
			if err := run(ctx, q, s.insertPending(n)...); err != nil {
				return nil, err
			}
			return nil, runAtEnd(ctx, q, s.count(n.ID, 0, 1))
		}
		var alive bool
		var worker string
		steps := append([]Step{s.holdWorker(claimer.WorkerID, &worker, &alive)}, s.insertPending(n)...)
		// Who creates runs does not wait for those who claim: where somebody
		// else is at it, this run is for the next claim.
		c := &claiming{s: s, ClaimRequest: *claimer}
		if err := run(ctx, q, append(steps, s.count(n.ID, 0, 1), c.nextTurns())...); err != nil || !alive {
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
