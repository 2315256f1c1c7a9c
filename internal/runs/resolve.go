package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// origin is where a run comes from: a new start, a session or a checkpoint.
type origin struct {
	agent       store.Agent
	versionID   string
	sessionID   string // empty: a new one
	continues   bool   // joins the session
	resumes     bool   // goes back to a checkpoint
	parentRunID *string
	parent      *definition.Plan // of the run that it follows; nil for a new start
	home        string
	workspace   string
}

// variables are those of the run before, overruled by what was given.
func (o *origin) variables(given map[string]string) map[string]string {
	all := map[string]string{}
	if o.parent != nil {
		maps.Copy(all, o.parent.Variables)
	}
	maps.Copy(all, given)
	return all
}

// origin finds what the four names of a request lead to; the most specific
// rules, and those that contradict each other are refused.
func (s *Service) origin(ctx context.Context, org string, n *stint.NewRun) (*origin, error) {
	from := &origin{}
	agentID, err := s.state(ctx, org, n, from)
	if err != nil {
		return nil, err
	}
	if from.agent, err = s.agent(ctx, org, n, agentID); err != nil {
		return nil, err
	}
	if n.AgentVersion != "" {
		v, err := s.agentVersion(ctx, org, from.agent, n.AgentVersion)
		if err != nil {
			return nil, err
		}
		from.versionID = v
	}
	if from.versionID == "" {
		from.versionID = from.agent.CurrentVersionID
	}
	return from, nil
}

// state follows checkpointId and sessionId and returns their agent, if any.
func (s *Service) state(ctx context.Context, org string, n *stint.NewRun, from *origin) (agentID string, err error) {
	if n.SessionID != "" {
		session, err := s.session(ctx, org, n.SessionID)
		if err != nil {
			return "", err
		}
		if n.CheckpointID == "" {
			return session.AgentID, s.continueSession(ctx, org, &session, from)
		}
	}
	if n.CheckpointID == "" {
		return "", nil
	}
	c, err := s.checkpoint(ctx, org, n.CheckpointID)
	if err != nil {
		return "", err
	}
	if n.SessionID != "" && n.SessionID != c.SessionID {
		return "", contradiction("checkpointId", "sessionId", "sessions")
	}
	from.resumes, from.versionID, from.parentRunID = true, c.AgentVersionID, &c.RunID
	from.home, from.workspace = c.HomeDigest, c.WorkspaceDigest
	from.parent, err = s.specOf(ctx, org, c.RunID)
	return c.AgentID, err
}

func (s *Service) continueSession(ctx context.Context, org string, session *store.Session, from *origin) error {
	from.continues, from.sessionID, from.parentRunID = true, session.ID, &session.LastRunID
	parent, err := s.specOf(ctx, org, session.LastRunID)
	from.parent = parent
	return err
}

func (s *Service) specOf(ctx context.Context, org, runID string) (*definition.Plan, error) {
	r, err := s.c.Store.Run(ctx, org, runID)
	if err != nil {
		return nil, notFound(err, "run", runID)
	}
	return definition.DecodePlan(r.Spec)
}

// agent finds the agent by the session's or checkpoint's word, by ID or by
// name, and holds them against each other.
func (s *Service) agent(ctx context.Context, org string, n *stint.NewRun, implied string) (store.Agent, error) {
	id := implied
	if n.AgentID != "" {
		if !stint.IsID(stint.PrefixAgent, n.AgentID) {
			return store.Agent{}, stint.NotFound("agent", n.AgentID)
		}
		if implied != "" && implied != n.AgentID {
			return store.Agent{}, contradiction("agentId", originName(n), "agents")
		}
		id = n.AgentID
	}
	if id == "" {
		a, err := s.c.Store.AgentByName(ctx, org, n.Agent)
		return a, notFound(err, "agent", n.Agent)
	}
	a, err := s.c.Store.Agent(ctx, org, id)
	if err != nil {
		return store.Agent{}, notFound(err, "agent", id)
	}
	if n.Agent == "" || n.Agent == a.Name {
		return a, nil
	}
	if _, err := s.c.Store.AgentByName(ctx, org, n.Agent); err != nil {
		return store.Agent{}, notFound(err, "agent", n.Agent)
	}
	other := "agentId"
	if n.AgentID == "" {
		other = originName(n)
	}
	return store.Agent{}, contradiction("agent", other, "agents")
}

func originName(n *stint.NewRun) string {
	if n.CheckpointID != "" {
		return "checkpointId"
	}
	return "sessionId"
}

// agentVersion resolves latest, an ID, v<N> or <N>.
func (s *Service) agentVersion(ctx context.Context, org string, a store.Agent, asked string) (string, error) {
	id, number, ok := parseVersion(asked, func(v string) bool { return stint.IsID(stint.PrefixAgentVersion, v) })
	if !ok {
		return "", stint.NotFound("agent version", asked)
	}
	if id == "" && number == 0 {
		return a.CurrentVersionID, nil
	}
	v, err := s.c.Store.AgentVersion(ctx, org, a.ID, id, number)
	return v.ID, notFound(err, "agent version", asked)
}

// parseVersion reads latest (both results zero), v<N>, <N>, or what isID knows.
func parseVersion(asked string, isID func(string) bool) (id string, number int64, ok bool) {
	if asked == "latest" {
		return "", 0, true
	}
	if isID(asked) {
		return asked, 0, true
	}
	digits := strings.TrimPrefix(asked, "v")
	n, err := strconv.ParseInt(digits, 10, 64)
	return "", n, err == nil && n > 0 && strconv.FormatInt(n, 10) == digits
}

// volumes resolves what is mounted: the definition's volumes and those that
// the request adds, each at the version asked for.
func (s *Service) volumes(ctx context.Context, org string, n *stint.NewRun, from *origin, f *definition.Plan) ([]definition.Volume, error) {
	mounts, err := wanted(n, from, f)
	if err != nil {
		return nil, err
	}
	out := make([]definition.Volume, 0, len(mounts))
	for _, m := range mounts {
		if kept, ok := m.kept(from); ok {
			out = append(out, kept)
			continue
		}
		v, err := s.treeVersion(ctx, org, stint.Volumes, m.name, m.version)
		if m.optional && stint.KindOf(err) == stint.KindNotFound {
			continue
		}
		if err != nil {
			return nil, at(err, "volumes."+m.name)
		}
		out = append(out, definition.Volume{Name: m.name, Version: v.ID, Digest: v.Digest, Path: m.path, Writable: m.writable})
	}
	return out, nil
}

// mount is a volume that a run is to have, before its version is looked up.
type mount struct {
	name, version, path string
	asked               bool // the request names the version
	optional, writable  bool
}

// kept is the very version that the checkpoint's run had, unless the request
// asks for one.
func (m mount) kept(from *origin) (definition.Volume, bool) {
	if !from.resumes || m.asked {
		return definition.Volume{}, false
	}
	i := slices.IndexFunc(from.parent.Volumes, func(v definition.Volume) bool { return v.Name == m.name })
	if i < 0 {
		return definition.Volume{}, false
	}
	v := from.parent.Volumes[i]
	v.Path, v.Writable = m.path, m.writable
	return v, true
}

func wanted(n *stint.NewRun, from *origin, f *definition.Plan) ([]mount, error) {
	var out []mount
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(f.Definition.Volumes)) {
		d := f.Definition.Volumes[key]
		m := mount{name: definition.Interpolate(key, f.Variables, nil), version: definition.Interpolate(d.Version, f.Variables, nil), path: d.Path, optional: d.Optional, writable: d.Writable}
		if e := stint.CheckName("volumes."+key, m.name); e != nil {
			return nil, e
		}
		if asked, ok := n.Volumes[m.name]; ok {
			m.version, m.asked, m.optional = asked, true, false
		}
		out, seen[m.name] = append(out, m.withDefaults()), true
	}
	extra := maps.Clone(n.Volumes)
	if from.parent != nil { // what an earlier request added stays mounted
		for _, v := range from.parent.Volumes {
			if _, ok := extra[v.Name]; !ok && !seen[v.Name] && v.Path == extraPath(v.Name) {
				out, seen[v.Name] = append(out, mount{name: v.Name, version: "latest", path: v.Path}), true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if !seen[name] {
			out = append(out, mount{name: name, version: extra[name], asked: true}.withDefaults())
		}
	}
	return out, nil
}

func extraPath(name string) string { return "/volumes/" + name }

func (m mount) withDefaults() mount {
	if m.path == "" {
		m.path = extraPath(m.name)
	}
	if m.version == "" {
		m.version = "latest"
	}
	return m
}

// treeVersion resolves a version of a named tree.
func (s *Service) treeVersion(ctx context.Context, org string, kind stint.FileSetKind, name, asked string) (store.FileSetVersion, error) {
	t, err := s.c.Store.FileSetByName(ctx, org, kind, name)
	if err != nil {
		return store.FileSetVersion{}, notFound(err, string(kind), name)
	}
	noun := string(kind) + " version"
	id, number, ok := parseVersion(asked, stint.IsFileSetVersion)
	if !ok {
		return store.FileSetVersion{}, stint.NotFound(noun, asked)
	}
	v, err := s.c.Store.FileSetVersion(ctx, org, t.ID, id, number)
	if errors.Is(err, store.ErrNotFound) && asked == "latest" {
		return v, &stint.Error{
			Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound,
			Message: fmt.Sprintf("The %s '%s' has no version yet. Push one first.", kind, name),
		}
	}
	return v, notFound(err, noun, asked)
}

// artifact settles where the workspace comes from and goes to.
func (s *Service) artifact(ctx context.Context, org string, n *stint.NewRun, from *origin, f *definition.Plan) error {
	name, inherited := n.ArtifactName, false
	if name == "" && from.parent != nil && from.parent.Artifact != nil {
		name, inherited = from.parent.Artifact.Name, true
	}
	if name == "" {
		if n.ArtifactVersion != "" {
			return stint.MissingParam("artifactName", "'artifactVersion' needs 'artifactName'.")
		}
		return nil
	}
	f.Artifact = &definition.Artifact{Name: name}
	switch {
	case n.ArtifactVersion != "" && n.ArtifactVersion != "latest":
		v, err := s.treeVersion(ctx, org, stint.Artifacts, name, n.ArtifactVersion)
		if err != nil {
			return at(err, "artifactVersion")
		}
		f.Artifact.Digest, f.Workspace = v.Digest, v.Digest
	case from.resumes && (inherited || n.ArtifactName == parentArtifact(from)) && n.ArtifactVersion == "":
		f.Artifact.Digest = from.workspace
	default:
		f.Artifact.Latest = true
	}
	return nil
}

func parentArtifact(from *origin) string {
	if from.parent == nil || from.parent.Artifact == nil {
		return ""
	}
	return from.parent.Artifact.Name
}

// at names the member of the request that a public error speaks of.
func at(err error, param string) error {
	if e, ok := errors.AsType[*stint.Error](err); ok && e.Param == "" {
		located := *e
		located.Param = param
		return &located
	}
	return err
}

// contradiction returns the error of two parameters that refer to different
// things.
func contradiction(a, b, noun string) error {
	return stint.InvalidParam(a, "'%s' and '%s' refer to different %s. Use only one of them, or make them agree.", a, b, noun)
}
