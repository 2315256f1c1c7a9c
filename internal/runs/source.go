package runs

import (
	"context"
	"maps"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// source describes the state that a run starts from: that of a new session, of an
// existing session, or of a checkpoint.
type source struct {
	agent       store.Agent
	versionID   string
	sessionID   string           // empty for a new session
	continues   bool             // the run joins the session sessionID
	resumes     bool             // the run starts from a checkpoint
	parentRunID *string          // the session's last run, the checkpoint's run, or the run that creates this run
	parent      *definition.Plan // plan of the previous run; nil without one
	home        string           // digest of the checkpoint's home folder
	workspace   string           // digest of the checkpoint's workspace
	// artifactVersion is the checkpoint's version of the artifact; empty if it has none.
	artifactVersion string
}

// variables returns the variables of the previous run, overridden by requested.
func (f *source) variables(requested map[string]string) map[string]string {
	all := map[string]string{}
	if f.parent != nil {
		maps.Copy(all, f.parent.Variables)
	}
	maps.Copy(all, requested)
	return all
}

// artifactName returns the name of the previous run's artifact, or an empty
// string.
func (f *source) artifactName() string {
	if f.parent == nil || f.parent.Artifact == nil {
		return ""
	}
	return f.parent.Artifact.Name
}

// resolveSource resolves the agent, version, session, and checkpoint of a
// request. It returns an error if members of the request contradict one another.
func (s *Service) resolveSource(ctx context.Context, org string, n *stint.NewRun) (*source, error) {
	from := &source{}
	agentID, err := s.resolveState(ctx, org, n, from)
	if err != nil {
		return nil, err
	}
	if from.agent, err = s.resolveAgent(ctx, org, n, agentID); err != nil {
		return nil, err
	}
	if n.AgentVersion != "" {
		if from.versionID, err = s.resolveAgentVersion(ctx, org, from.agent, n.AgentVersion); err != nil {
			return nil, err
		}
	}
	if from.versionID == "" {
		from.versionID = from.agent.CurrentVersionID
	}
	return from, nil
}

// resolveState resolves checkpointId and sessionId and returns the identifier of
// their agent. The identifier is empty if the request has neither member.
func (s *Service) resolveState(ctx context.Context, org string, n *stint.NewRun, from *source) (agentID string, err error) {
	if n.SessionID != "" {
		session, err := store.Lookup(ctx, s.c.Store.Session, stint.PrefixSession, org, n.SessionID)
		if err != nil {
			return "", err
		}
		if n.CheckpointID == "" {
			from.continues, from.sessionID, from.parentRunID = true, session.ID, &session.LastRunID
			from.parent, err = s.planOf(ctx, org, session.LastRunID)
			return session.AgentID, err
		}
	}
	if n.CheckpointID == "" {
		return "", nil
	}
	c, err := store.Lookup(ctx, s.c.Store.Checkpoint, stint.PrefixCheckpoint, org, n.CheckpointID)
	if err != nil {
		return "", err
	}
	if n.SessionID != "" && n.SessionID != c.SessionID {
		return "", contradiction("checkpointId", "sessionId", "sessions")
	}
	from.resumes, from.versionID, from.parentRunID = true, c.AgentVersionID, &c.RunID
	from.home, from.workspace = c.HomeDigest, c.WorkspaceDigest
	if c.ArtifactVersion != nil {
		from.artifactVersion = *c.ArtifactVersion
	}
	from.parent, err = s.planOf(ctx, org, c.RunID)
	return c.AgentID, err
}

func (s *Service) planOf(ctx context.Context, org, runID string) (*definition.Plan, error) {
	r, err := s.c.Store.Run(ctx, org, runID)
	if err != nil {
		return nil, store.PublicError(err, "run", runID)
	}
	return definition.DecodePlan(r.Spec)
}

// resolveAgent returns the agent that the request refers to by identifier, by name,
// or by a session or checkpoint. implied is the agent's identifier of the session or
// checkpoint, or empty. If the references are to different agents, resolveAgent
// returns an error.
func (s *Service) resolveAgent(ctx context.Context, org string, n *stint.NewRun, implied string) (store.Agent, error) {
	state := "sessionId" // the member that implies the agent
	if n.CheckpointID != "" {
		state = "checkpointId"
	}
	id := implied
	if n.AgentID != "" {
		if !stint.IsID(stint.PrefixAgent, n.AgentID) {
			return store.Agent{}, stint.NotFound("agent", n.AgentID)
		}
		if implied != "" && implied != n.AgentID {
			return store.Agent{}, contradiction("agentId", state, "agents")
		}
		id, state = n.AgentID, "agentId"
	}
	if id == "" {
		a, err := s.c.Store.AgentByName(ctx, org, n.Agent)
		return a, store.PublicError(err, "agent", n.Agent)
	}
	a, err := store.Lookup(ctx, s.c.Store.Agent, stint.PrefixAgent, org, id)
	if err != nil || n.Agent == "" || n.Agent == a.Name {
		return a, err
	}
	if _, err := s.c.Store.AgentByName(ctx, org, n.Agent); err != nil {
		return store.Agent{}, store.PublicError(err, "agent", n.Agent)
	}
	return store.Agent{}, contradiction("agent", state, "agents")
}

// resolveAgentVersion returns the identifier of the version that the request
// specifies as latest, an identifier, v<N>, or <N>.
func (s *Service) resolveAgentVersion(ctx context.Context, org string, a store.Agent, requested string) (string, error) {
	id, number, ok := stint.ParseVersion(requested, stint.IsAgentVersion)
	if !ok {
		return "", stint.NotFound("agent version", requested)
	}
	if id == "" && number == 0 {
		return a.CurrentVersionID, nil
	}
	v, err := s.c.Store.AgentVersion(ctx, org, a.ID, id, number)
	return v.ID, store.PublicError(err, "agent version", requested)
}

// contradiction returns the error for parameters a and b that refer to different
// objects. noun is the plural name of the objects.
func contradiction(a, b, noun string) error {
	return stint.InvalidParam(a, "'%s' and '%s' refer to different %s. Use only one of them, or make them agree.", a, b, noun)
}
