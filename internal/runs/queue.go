package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

// AddQueue sets the queue of a pending run. If the run has been started or has ended since
// it was read, AddQueue reads it again.
func (s *Service) AddQueue(ctx context.Context, c auth.Caller, r *stint.Run) error {
	for r.Status == stint.Pending {
		queued, err := s.c.Store.QueuedRun(ctx, c.OrgID, r.ID)
		if errors.Is(err, store.ErrNotFound) {
			if *r, err = s.Get(ctx, c, r.ID); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read the queue: %w", err)
		}
		all, err := s.queues(ctx, c.OrgID, []store.QueuedRun{queued})
		if err != nil {
			return err
		}
		r.Queue = all[0]
		return nil
	}
	return nil
}

// addQueues sets the queues of the pending runs of an activity. A run that was started or
// created since the activity was read gets none.
func (s *Service) addQueues(ctx context.Context, org string, a *stint.Activity) error {
	first := slices.IndexFunc(a.Data, func(r stint.ActiveRun) bool { return r.Status == stint.Pending })
	if first < 0 {
		return nil
	}
	waiting, err := s.c.Store.QueuedRuns(ctx, org, len(a.Data)-first)
	if err != nil {
		return fmt.Errorf("read the queue: %w", err)
	}
	queues, err := s.queues(ctx, org, waiting)
	if err != nil {
		return err
	}
	byID := make(map[string]*stint.Queue, len(waiting))
	for i := range waiting {
		byID[waiting[i].ID] = queues[i]
	}
	for i := first; i < len(a.Data); i++ {
		a.Data[i].Queue = byID[a.Data[i].ID]
	}
	return nil
}

// newQueue returns the queue in the response to a creation, which does not wait for a look
// at the queue.
func newQueue(r *store.NewRun) *stint.Queue {
	if !r.OpenSession {
		return &stint.Queue{Reason: stint.QueueSession, Message: "The run starts when the earlier runs of its session have ended."}
	}
	return &stint.Queue{Reason: stint.QueueCapacity, Message: "The run starts when a worker takes it. Read the run for its position."}
}

// queues returns why runs of an organisation are pending.
func (s *Service) queues(ctx context.Context, org string, waiting []store.QueuedRun) ([]*stint.Queue, error) {
	state, err := s.c.Store.QueueState(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	all := make([]*stint.Queue, len(waiting))
	for i := range waiting {
		r := &waiting[i]
		d, err := s.definition(ctx, org, r.AgentID, r.AgentVersionID)
		if err != nil {
			return nil, err
		}
		all[i] = s.blocked(&state, r)
		if all[i] == nil {
			all[i] = s.queued(&state, r, d.Sandbox)
			all[i].Position = new(r.Ahead + 1)
		}
	}
	return all, nil
}

// because returns a queue with a reason and a message.
func because(reason stint.QueueReason, format string, args ...any) *stint.Queue {
	return &stint.Queue{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// blocked returns why a run cannot be started even if nothing else runs, or nil.
func (s *Service) blocked(state *store.QueueState, r *store.QueuedRun) *stint.Queue {
	switch {
	case !r.Ready && r.RetryAt != nil:
		return because(stint.QueueRetry, "The last attempt failed. The next one starts at %s.", r.RetryAt)
	case !r.Ready:
		return because(stint.QueueSession, "The run starts when the run %s of the same session has ended.", r.Before)
	case s.c.Dispatch.IsHeld(r.SessionID):
		return because(stint.QueueSalvage, "The files of the session's last run are being stored after a crash. The run starts when this is done.")
	}
	required := stint.Placement{Labels: r.Placement}
	if len(r.Placement) > 0 && none(state, func(h *store.Host) bool { return required.Fits(h.Labels) }) {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(r.Placement)) {
			labels = append(labels, key+"="+r.Placement[key])
		}
		return because(stint.QueuePlacement, "No worker has the labels %s. Ask the operator to start a server with --labels, or cancel the run.", strings.Join(labels, ", "))
	}
	return nil
}

// queued returns why a run that can be started is still pending. isolation is the sandbox
// in its definition.
func (s *Service) queued(state *store.QueueState, r *store.QueuedRun, isolation string) *stint.Queue {
	if isolation != "" && isolation != "default" && none(state, func(h *store.Host) bool { return slices.Contains(h.Isolations, isolation) }) {
		return because(stint.QueueIsolation, "No worker has the sandbox '%s'. The run fails when its turn comes, unless a worker has it by then.", isolation)
	}
	if s.c.Healthy != nil && len(state.Workers) <= 1 {
		if e, ok := errors.AsType[*stint.Error](s.c.Healthy()); ok {
			return &stint.Queue{Reason: stint.QueueUnhealthy, Message: e.Message}
		}
	}
	perOrg, perAgent := s.c.Dispatch.Limits()
	if perOrg > 0 && state.Running >= perOrg {
		return because(stint.QueueOrganisationLimit, "The organisation has its maximum of running runs (%d). The run starts when one of them has ended.", perOrg)
	}
	if perAgent > 0 && state.RunningOf[r.AgentID] >= perAgent {
		return because(stint.QueueAgentLimit, "The agent has its maximum of running runs (%d). The run starts when one of them has ended.", perAgent)
	}
	slots, running := 0, 0
	for _, w := range state.Workers {
		slots, running = slots+w.Capacity, running+w.Running
	}
	switch {
	case slots == 0:
		return because(stint.QueueCapacity, "No worker is connected. The run starts when one is.")
	case running < slots:
		return because(stint.QueueCapacity, "The run starts when a worker takes it.")
	}
	return because(stint.QueueCapacity, "All workers are busy. The run starts when its turn comes.")
}

// none reports whether every worker was described and none has what is required.
func none(state *store.QueueState, has func(*store.Host) bool) bool {
	for _, w := range state.Workers {
		if w.Offer == nil || has(w.Offer) {
			return false
		}
	}
	return true
}
