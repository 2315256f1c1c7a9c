package runs

import (
	"context"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// ancestry describes the ancestors of a new run: the run that creates it through its
// agent, the run that created this parent, and so on. It is zero for a run that a
// user creates.
type ancestry struct {
	parent   *string  // ID of the run that creates the new run through its agent
	depth    int      // number of ancestors
	sessions []string // sessions of all ancestors
	secrets  []string // names of the secrets that the definitions of all ancestors name
}

// checkDepth returns the ancestry of a run that the caller creates. It returns an
// error if the caller's depth has reached MaxDepth, or if the new run would join the
// session of an ancestor: it would then wait for the end of this ancestor.
func (s *Service) checkDepth(ctx context.Context, c auth.Caller, n *stint.NewRun) (ancestry, error) {
	if c.RunID == "" {
		return ancestry{}, nil
	}
	if c.Depth >= s.c.MaxDepth {
		return ancestry{}, stint.InvalidParam("agent", "The chain of runs is too deep: this run is %d levels below the run that a user started, and the limit is %d. Let it do the work itself, or ask the operator for a higher 'max-depth'.", c.Depth, s.c.MaxDepth)
	}
	parent, err := s.c.Store.Run(ctx, c.OrgID, c.RunID)
	if err != nil {
		return ancestry{}, store.PublicError(err, "run", c.RunID)
	}
	plan, err := definition.DecodePlan(parent.Spec)
	if err != nil {
		return ancestry{}, err
	}
	sessions := append(slices.Clone(plan.Above), parent.SessionID)
	if n.CheckpointID == "" && slices.Contains(sessions, n.SessionID) {
		return ancestry{}, stint.InvalidParam("sessionId", "The session '%s' belongs to this run or to a run that led to it. Runs of a session wait for one another, so the new run would never start. Omit 'sessionId', or resume a checkpoint.", n.SessionID)
	}
	secrets := plan.AncestorSecrets
	if plan.Depth == 0 {
		secrets = definition.SecretNames(&plan.Definition)
	}
	return ancestry{&c.RunID, c.Depth + 1, sessions, secrets}, nil
}
