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
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/store"
)

// CreateOptions adds to a creation. With a Key, what Answer makes of the new
// run is stored for the idempotency key in the same transaction; when the key
// that was claimed then is another's by now, it is store.ErrKeyInUse.
type CreateOptions struct {
	Key     string
	Claimed stint.Time
	Answer  func(stint.Run) (*store.Answer, error)
}

// Create stores a pending run and returns it; it is worked afterwards. What it
// will use is resolved and frozen now.
func (s *Service) Create(ctx context.Context, c auth.Caller, n stint.NewRun, o CreateOptions) (stint.Run, error) {
	if err := definition.CheckRequest(&n); err != nil {
		return stint.Run{}, err
	}
	row, err := s.prepare(ctx, c, &n)
	if err != nil {
		return stint.Run{}, err
	}
	shown := row.Run.Run
	shown.Volumes = nil // the answer to a creation does not tell them
	if o.Key != "" {
		answer, err := o.Answer(shown)
		if err != nil {
			return stint.Run{}, fmt.Errorf("prepare answer: %w", err)
		}
		row.Key, row.Claimed, row.Answer = o.Key, o.Claimed, answer
	}
	if err := s.store(ctx, row); err != nil {
		return stint.Run{}, err
	}
	return shown, nil
}

// store writes the run and, when a worker is idle, claims for it in the same
// commit. The worker hears of it although the caller has left.
func (s *Service) store(ctx context.Context, row store.NewRun) error {
	ctx, cancel := dispatch.CommitContext(ctx)
	defer cancel()
	claimer, deliver := s.c.Dispatch.TakeIdle()
	claims, err := s.c.Store.CreateRun(ctx, row, claimer)
	if deliver != nil {
		deliver(claims)
	}
	if errors.Is(err, store.ErrNotFound) {
		return &stint.Error{
			Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound, Param: "volumes",
			Message: "A version of a volume that this run would mount was deleted just now. Create the run again.",
		}
	}
	if err != nil {
		return fmt.Errorf("create run: %w", err)
	}
	claimed := slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Run.ID == row.ID })
	s.c.Dispatch.Created(row.ID, !claimed)
	return nil
}

// prepare resolves everything that the request names.
func (s *Service) prepare(ctx context.Context, c auth.Caller, n *stint.NewRun) (store.NewRun, error) {
	chain, err := s.below(ctx, c, n)
	if err != nil {
		return store.NewRun{}, err
	}
	from, err := s.origin(ctx, c.OrgID, n)
	if err != nil {
		return store.NewRun{}, err
	}
	if from.parentRunID == nil {
		from.parentRunID = chain.starter
	}
	definition, err := s.definitions.of(ctx, s.c.Store, c.OrgID, from.agent.ID, from.versionID)
	if err != nil {
		return store.NewRun{}, err
	}
	frozen, err := s.freeze(ctx, c.OrgID, n, from, definition)
	if err != nil {
		return store.NewRun{}, err
	}
	frozen.Depth, frozen.Above = chain.depth, chain.sessions
	return s.row(c, n, from, frozen)
}

func (s *Service) freeze(ctx context.Context, org string, n *stint.NewRun, from *origin, d *stint.Definition) (*definition.Plan, error) {
	timeout, err := definition.RunTimeout(n, d)
	if err != nil {
		return nil, err
	}
	limits, err := definition.RunLimits(n, d)
	if err != nil {
		return nil, err
	}
	frozen := &definition.Plan{
		Definition: *d, Timeout: timeout, OutputBytes: int64(limits.OutputBytes), Limits: limits,
		Variables:   from.variables(n.Variables),
		SecretNames: slices.Sorted(maps.Keys(n.Secrets)),
		Home:        from.home, Workspace: from.workspace, FromSession: from.continues,
	}
	if err := s.requireInputs(ctx, org, n, frozen); err != nil {
		return nil, err
	}
	if frozen.Volumes, err = s.volumes(ctx, org, n, from, frozen); err != nil {
		return nil, err
	}
	if err := s.artifact(ctx, org, n, from, frozen); err != nil {
		return nil, err
	}
	return frozen, nil
}

// requireInputs tells every variable and secret that the definition refers to
// and nobody gave.
func (s *Service) requireInputs(ctx context.Context, org string, n *stint.NewRun, f *definition.Plan) error {
	var stored map[string]bool
	given := func(r definition.Reference) (bool, error) {
		if r.Source == "vars" {
			_, ok := f.Variables[r.Name]
			return ok, nil
		}
		if _, ok := n.Secrets[r.Name]; ok {
			return true, nil
		}
		if stored == nil {
			rows, err := s.c.Store.Secrets(ctx, org)
			if err != nil {
				return false, fmt.Errorf("list secrets: %w", err)
			}
			stored = make(map[string]bool, len(rows))
			for _, row := range rows {
				stored[row.Name] = true
			}
		}
		return stored[r.Name], nil
	}
	var faults []*stint.Error
	for _, r := range needs(&f.Definition) {
		ok, err := given(r)
		if err != nil {
			return err
		}
		if !ok {
			faults = append(faults, missingInput(r))
		}
	}
	return stint.JoinErrors(faults)
}

func missingInput(r definition.Reference) *stint.Error {
	member := map[string]string{"vars": "variables", "secrets": "secrets"}[r.Source]
	return stint.MissingParam(member+"."+r.Name, "The agent needs '%s.%s', which was not given.", member, r.Name)
}

// needs lists what a definition refers to, each once, in a fixed order.
func needs(d *stint.Definition) []definition.Reference {
	var out []definition.Reference
	add := func(refs ...definition.Reference) {
		for _, r := range refs {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
		add(definition.References(d.Environment[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Volumes)) {
		add(definition.References(name)...)
		add(definition.References(d.Volumes[name].Version)...)
	}
	if d.Provider != nil && d.Provider.APIKey != nil {
		add(definition.Reference{Source: "secrets", Name: d.Provider.APIKey.Secret})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Secrets)) {
		add(definition.Reference{Source: "secrets", Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(d.MCPServers)) {
		s := d.MCPServers[name]
		for _, texts := range []map[string]string{s.Headers, s.Env} {
			for _, key := range slices.Sorted(maps.Keys(texts)) {
				add(definition.References(texts[key])...)
			}
		}
	}
	return out
}

func (s *Service) row(c auth.Caller, n *stint.NewRun, from *origin, f *definition.Plan) (store.NewRun, error) {
	raw, err := f.Encode()
	if err != nil {
		return store.NewRun{}, err
	}
	id := s.c.IDs.New(stint.PrefixRun)
	sealed, err := s.seal(id, n.Secrets)
	if err != nil {
		return store.NewRun{}, err
	}
	row := store.NewRun{OpenSession: !from.continues, Run: store.Run{
		OrgID: c.OrgID, AgentVersionID: from.versionID, Spec: raw, Sealed: sealed,
		Priority: n.Priority, Timeout: f.Timeout,
	}}
	row.Run.Run = stint.Run{
		RunSummary: stint.RunSummary{
			ID: id, AgentID: from.agent.ID, AgentName: from.agent.Name, Status: stint.Pending,
			Prompt: n.Prompt, CreatedAt: stint.TimeOf(s.c.Now()),
		},
		SessionID: from.sessionID, ParentRunID: from.parentRunID, Metadata: maps.Clone(n.Metadata),
		Volumes: make(map[string]string, len(f.Volumes)),
	}
	for _, v := range f.Volumes {
		row.Volumes[v.Name] = v.Version
	}
	if row.SessionID == "" {
		row.SessionID = s.c.IDs.New(stint.PrefixSession)
	}
	if row.Metadata == nil {
		row.Metadata = map[string]string{}
	}
	if r := f.Definition.Retries; r != nil {
		row.MaxRetries = r.Max
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
		return nil, errors.New("seal secrets") // the cause might quote what it could not seal
	}
	return sealed, nil
}
