package runs

import (
	"context"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/definition"
)

// chain is where a new run stands below the runs that started one another down
// to it. A run that a user creates has the zero value.
type chain struct {
	starter  *string // the run whose agent creates this one
	depth    int
	sessions []string // of the runs above
}

// below finds the chain of a run that the caller creates, and refuses one that
// is too long, or whose runs would wait for one another for ever.
func (s *Service) below(ctx context.Context, c auth.Caller, n *stint.NewRun) (chain, error) {
	if c.RunID == "" {
		return chain{}, nil
	}
	if c.Depth >= s.c.MaxDepth {
		return chain{}, stint.InvalidParam("agent", "The chain of runs is too deep: this run stands %d below the one that a user started, and %d is the most. Let it do the work itself, or ask the operator for a higher 'max-depth'.", c.Depth, s.c.MaxDepth)
	}
	starter, err := s.c.Store.Run(ctx, c.OrgID, c.RunID)
	if err != nil {
		return chain{}, notFound(err, "run", c.RunID)
	}
	frozen, err := definition.DecodePlan(starter.Spec)
	if err != nil {
		return chain{}, err
	}
	sessions := append(slices.Clone(frozen.Above), starter.SessionID)
	if n.CheckpointID == "" && slices.Contains(sessions, n.SessionID) {
		return chain{}, stint.InvalidParam("sessionId", "The session '%s' is that of this run, or of a run that led to it. Runs of a session wait for one another, so the new run would never start. Start it without 'sessionId', or resume a checkpoint.", n.SessionID)
	}
	return chain{&c.RunID, c.Depth + 1, sessions}, nil
}
