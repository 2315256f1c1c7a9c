package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// assign returns an assignment for each claim, with decrypted secrets and a complete
// plan. It does so even if ctx ends. If an assignment cannot be prepared, its Err is
// set.
func (l *Local) assign(ctx context.Context, claims []store.Claim) []Assignment {
	ctx, cancel := store.CommitContext(ctx)
	defer cancel()
	out := make([]Assignment, len(claims))
	for i, c := range claims {
		l.c.Feed.Wake(c.Run.ID)
		if c.Run.Epoch == 1 && c.Run.StartedAt != nil {
			l.c.Metrics.RunClaimed(c.Run.StartedAt.Sub(c.Run.CreatedAt.Time))
		}
		a := Assignment{Run: c.Run.Run, OrgID: c.Run.OrgID, AgentVersionID: c.Run.AgentVersionID, Position: c.Position}
		if c.Run.AttemptStartedAt != nil {
			a.StartedAt = *c.Run.AttemptStartedAt
		}
		a.Plan, a.Err = definition.DecodePlan(c.Run.Spec)
		if a.Err == nil {
			a.Given, a.Err = l.openGiven(&c.Run)
		}
		if a.Err == nil {
			a.Err = l.openStored(ctx, &a)
		}
		if a.Err == nil {
			a.Err = l.completePlan(ctx, &c, a.Plan)
		}
		out[i] = a
	}
	return out
}

// openGiven returns the secrets in the request that created the run.
func (l *Local) openGiven(r *store.Run) (map[string]string, error) {
	if len(r.Sealed) == 0 {
		return nil, nil
	}
	plain, err := l.c.Sealer.Open(r.Sealed, []byte(r.ID))
	if err != nil {
		return nil, fmt.Errorf("open the secrets of %s: %w", r.ID, err)
	}
	var secrets map[string]string
	if err := json.Unmarshal(plain, &secrets); err != nil {
		return nil, fmt.Errorf("read the secrets of %s: %w", r.ID, err)
	}
	return secrets, nil
}

// completePlan sets the members of the plan that are resolved when the run starts:
// the newest state of its session and the version of its artifact, or the state that an
// earlier attempt of the run left.
func (l *Local) completePlan(ctx context.Context, c *store.Claim, p *definition.Plan) error {
	r := &c.Run
	if r.Epoch >= 2 && r.Retries != nil && r.Retries.From != stint.RetryFromStart {
		left, err := l.c.Store.AttemptState(ctx, r.ID)
		if err == nil {
			completeFromAttempt(&left, p)
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("find the state of the last attempt: %w", err)
		}
	}
	return l.completeFromStart(ctx, c, p)
}

// completeFromAttempt sets the state that an attempt left. The run's version is compared
// with the version that the first attempt started from.
func completeFromAttempt(left *store.AttemptState, p *definition.Plan) {
	p.Home, p.Workspace = left.Checkpoint.HomeDigest, left.Checkpoint.WorkspaceDigest
	if p.Artifact != nil && left.Version != nil {
		p.Artifact.Version = left.Version.Commit.Parent
	}
}

func (l *Local) completeFromStart(ctx context.Context, c *store.Claim, p *definition.Plan) error {
	r := &c.Run
	if p.FromSession {
		if err := l.completeFromSession(ctx, r, p); err != nil {
			return err
		}
	}
	if p.Artifact == nil || !p.Artifact.Latest {
		return nil
	}
	if c.Start != nil {
		p.Artifact.Version, p.Workspace = c.Start.ID, c.Start.Digest
		return nil
	}
	p.Artifact.Version, p.Workspace = "", ""
	artifact, err := l.c.Store.FileSetByName(ctx, r.OrgID, stint.Artifacts, p.Artifact.Name)
	if errors.Is(err, store.ErrNotFound) || err == nil && artifact.CurrentVersionID == nil {
		return nil // the artifact or its first version is created when the run ends
	}
	if err != nil {
		return fmt.Errorf("find artifact %s: %w", p.Artifact.Name, err)
	}
	head, err := l.c.Store.FileSetVersion(ctx, r.OrgID, artifact.ID, "", 0)
	if err != nil {
		return fmt.Errorf("find head of artifact %s: %w", p.Artifact.Name, err)
	}
	p.Artifact.Version, p.Workspace = head.ID, head.Digest
	return nil
}

func (l *Local) completeFromSession(ctx context.Context, r *store.Run, p *definition.Plan) error {
	session, err := l.c.Store.Session(ctx, r.OrgID, r.SessionID)
	if err != nil {
		return fmt.Errorf("find session %s: %w", r.SessionID, err)
	}
	if session.CheckpointID == nil {
		return nil
	}
	c, err := l.c.Store.Checkpoint(ctx, r.OrgID, *session.CheckpointID)
	if err != nil {
		return fmt.Errorf("find checkpoint %s: %w", *session.CheckpointID, err)
	}
	p.Home = c.HomeDigest
	if p.Artifact == nil {
		p.Workspace = c.WorkspaceDigest
	}
	return nil
}
