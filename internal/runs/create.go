package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// CreateOptions contains the idempotency key of a creation. If Key is set,
// Create stores the result of Answer for Key in the transaction that creates the
// run. Claimed is the time at which the request claimed Key. Create returns
// store.ErrKeyInUse if another request has taken over Key since then.
type CreateOptions struct {
	Key     string
	Claimed stint.Time
	Answer  func(stint.Run) (*store.Answer, error)
}

// Create resolves and freezes the plan of a new run, stores the run as pending,
// and returns it. A worker executes it afterwards.
func (s *Service) Create(ctx context.Context, c auth.Caller, n stint.NewRun, o CreateOptions) (stint.Run, error) {
	if err := definition.CheckRequest(&n); err != nil {
		return stint.Run{}, err
	}
	row, err := s.prepare(ctx, c, &n)
	if err != nil {
		return stint.Run{}, err
	}
	created := row.Run.Run
	created.Volumes = nil // the response to a creation omits them
	created.Queue = newQueue(&row)
	if o.Key != "" {
		answer, err := o.Answer(created)
		if err != nil {
			return stint.Run{}, fmt.Errorf("prepare answer: %w", err)
		}
		row.Key, row.Claimed, row.Answer = o.Key, o.Claimed, answer
	}
	if err := s.storeRun(ctx, row); err != nil {
		return stint.Run{}, err
	}
	return created, nil
}

// storeRun writes the run and notifies its readers and, unless the run was claimed, the
// workers. If a worker is idle, storeRun also claims runs for this worker in the same
// transaction. The end of ctx does not interrupt storeRun.
func (s *Service) storeRun(ctx context.Context, row store.NewRun) error {
	ctx, cancel := store.CommitContext(ctx)
	defer cancel()
	claimer, deliver := s.c.Dispatch.TakeIdle()
	claims, err := s.c.Store.CreateRun(ctx, row, claimer)
	if deliver != nil {
		deliver(claims)
	}
	if errors.Is(err, store.ErrNotFound) {
		return &stint.Error{
			Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound, Param: "volumes",
			Message: "A version of a volume that this run would mount was just deleted. Create the run again.",
		}
	}
	if err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	claimed := slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Run.ID == row.ID })
	s.c.Dispatch.NotifyCreated(row.ID, !claimed)
	return nil
}

// prepare resolves all names in the request and returns the row to store.
func (s *Service) prepare(ctx context.Context, c auth.Caller, n *stint.NewRun) (store.NewRun, error) {
	above, err := s.checkDepth(ctx, c, n)
	if err != nil {
		return store.NewRun{}, err
	}
	from, err := s.resolveSource(ctx, c.OrgID, n)
	if err != nil {
		return store.NewRun{}, err
	}
	if from.parentRunID == nil {
		from.parentRunID = above.parent
	}
	d, err := s.definition(ctx, c.OrgID, from.agent.ID, from.versionID)
	if err != nil {
		return store.NewRun{}, err
	}
	plan, err := s.plan(ctx, c.OrgID, n, from, &above, d)
	if err != nil {
		return store.NewRun{}, err
	}
	return s.row(c, n, from, plan)
}

// definition returns the definition of a version. The result is shared by all
// callers and must not be modified.
func (s *Service) definition(ctx context.Context, org, agentID, versionID string) (*stint.Definition, error) {
	if cached, ok := s.definitions.Get(versionID); ok {
		return cached, nil
	}
	v, err := s.c.Store.AgentVersion(ctx, org, agentID, versionID, 0)
	if err != nil {
		return nil, store.PublicError(err, "agent version", versionID)
	}
	d := new(stint.Definition) // validated when it was stored
	if err := json.Unmarshal(v.Definition, d); err != nil {
		return nil, fmt.Errorf("decode definition %s: %w", versionID, err)
	}
	s.definitions.Put(versionID, d)
	return d, nil
}

// plan returns the frozen plan of the run.
func (s *Service) plan(ctx context.Context, org string, n *stint.NewRun, from *source, above *ancestry, d *stint.Definition) (*definition.Plan, error) {
	timeout, err := definition.RunTimeout(n, d)
	if err != nil {
		return nil, err
	}
	limits, err := definition.RunLimits(n, d)
	if err != nil {
		return nil, err
	}
	run, err := definition.RunDefinition(n, d)
	if err != nil {
		return nil, err
	}
	p := &definition.Plan{
		Definition: run, Timeout: timeout, OutputBytes: int64(limits.OutputBytes), Limits: limits,
		Variables:   from.variables(n.Variables),
		SecretNames: slices.Sorted(maps.Keys(n.Secrets)),
		Home:        from.home, Workspace: from.workspace, FromSession: from.continues,
		Depth: above.depth, Above: above.sessions, UnnamedSecrets: from.agent.UnnamedSecrets,
	}
	if len(above.secrets) > 0 {
		p.AncestorSecrets = slices.DeleteFunc(definition.SecretNames(d), func(name string) bool { return !slices.Contains(above.secrets, name) })
	}
	if err := s.checkInputs(ctx, org, n, from.agent.Name, p); err != nil {
		return nil, err
	}
	if p.Volumes, err = s.resolveVolumes(ctx, org, n, from, p); err != nil {
		return nil, err
	}
	if err := s.resolveArtifact(ctx, org, n, from, p); err != nil {
		return nil, err
	}
	return p, nil
}

// row returns the row of a new run, with its secrets sealed.
func (s *Service) row(c auth.Caller, n *stint.NewRun, from *source, p *definition.Plan) (store.NewRun, error) {
	raw, err := p.Encode()
	if err != nil {
		return store.NewRun{}, err
	}
	id, creator := s.c.IDs.New(stint.PrefixRun), c.Name()
	sealed, err := s.seal(id, n.Secrets)
	if err != nil {
		return store.NewRun{}, err
	}
	row := store.NewRun{OpenSession: !from.continues, Run: store.Run{
		OrgID: c.OrgID, AgentVersionID: from.versionID, Spec: raw, Sealed: sealed,
		Priority: n.Priority, Timeout: p.Timeout,
	}}
	row.Run.Run = stint.Run{
		RunSummary: stint.RunSummary{
			ID: id, AgentID: from.agent.ID, AgentName: from.agent.Name, Status: stint.Pending,
			Prompt: n.Prompt, CreatedAt: stint.TimeOf(s.c.Now()),
		},
		SessionID: from.sessionID, ParentRunID: from.parentRunID, Metadata: maps.Clone(n.Metadata), CreatedBy: &creator,
		Volumes: make(map[string]string, len(p.Volumes)), Attempts: []stint.Attempt{},
	}
	if placement := p.Definition.Placement; placement != nil && len(placement.Labels) > 0 {
		row.Placement = placement.Labels
	}
	for _, v := range p.Volumes {
		row.Volumes[v.Name] = v.Version
	}
	if p.Artifact != nil && from.continues && inherited(n) {
		row.Inherits = p.Artifact.Name
	}
	if row.SessionID == "" {
		row.SessionID = s.c.IDs.New(stint.PrefixSession)
	}
	if row.Metadata == nil {
		row.Metadata = map[string]string{}
	}
	if r := p.Definition.Retries; r != nil && r.Max > 0 {
		row.Retries = r
	}
	return row, nil
}

func (s *Service) seal(runID string, secrets map[string]string) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	sealed, err := s.c.Sealer.Seal(plain, []byte(runID))
	if err != nil {
		return nil, errors.New("seal secrets") // the cause could quote a secret
	}
	return sealed, nil
}
