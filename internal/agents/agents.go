// Package agents manages agents and their versions.
//
// An agent has a name and versions; each version contains a definition, which is
// stored without the name. A definition that is equivalent to the current one, for
// example with another order of keys, does not become a new version.
package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

// Store is the part of store.Store that a Service needs.
type Store interface {
	store.Agents
	Secrets(ctx context.Context, org string) ([]store.Secret, error)
}

// Config contains the dependencies of a Service. Store and IDs are required.
type Config struct {
	Store Store
	IDs   *stint.IDs
	Now   func() time.Time // default: time.Now
	// Check reports the settings of a definition that this installation does not
	// support. It is optional. The definition may be invalid.
	Check func(context.Context, *stint.Definition) (Offer, error)
}

// Service implements the use cases of agents. It is safe for concurrent use.
type Service struct {
	store Store
	ids   *stint.IDs
	now   func() time.Time
	check func(context.Context, *stint.Definition) (Offer, error)
}

// New returns a Service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{store: c.Store, ids: c.IDs, now: c.Now, check: c.Check}
}

// Create stores a new agent with its first version. raw is the definition, which
// contains the agent's name.
func (s *Service) Create(ctx context.Context, c auth.Caller, raw []byte) (stint.Agent, error) {
	d, err := s.parse(ctx, raw, true)
	if err != nil {
		return stint.Agent{}, err
	}
	missing, err := s.checkSecrets(ctx, c, d.name, d.definition, nil)
	if err != nil {
		return stint.Agent{}, err
	}
	now := stint.TimeOf(s.now())
	v := s.newVersion(c, s.ids.New(stint.PrefixAgent), d, now)
	v.VersionNumber = 1
	a := stint.Agent{ID: v.AgentID, Name: d.name, CurrentVersionID: v.ID, CreatedAt: now, UpdatedAt: now}
	err = s.store.CreateAgent(ctx, store.Agent{Agent: a, OrgID: c.OrgID}, v)
	if errors.Is(err, store.ErrExists) {
		return stint.Agent{}, stint.AlreadyExists("agent", d.name)
	}
	if err != nil {
		return stint.Agent{}, fmt.Errorf("create agent %s: %w", d.name, err)
	}
	a.Warnings = append(d.warnings, missing...)
	return a, nil
}

// AddVersion stores raw as the new current version of an agent. If the current
// version is equivalent, AddVersion returns the current version and added is false.
// If raw contains a name, it must be the agent's name.
func (s *Service) AddVersion(ctx context.Context, c auth.Caller, agentID string, raw []byte) (v stint.AgentVersion, added bool, err error) {
	a, err := s.Get(ctx, c.OrgID, agentID)
	if err != nil {
		return stint.AgentVersion{}, false, err
	}
	d, err := s.parse(ctx, raw, false)
	if err != nil {
		return stint.AgentVersion{}, false, err
	}
	if d.name != "" && d.name != a.Name {
		return stint.AgentVersion{}, false, stint.InvalidParam("name",
			"The definition is for '%s', but this agent is '%s'. Omit 'name', or create another agent.", d.name, a.Name)
	}
	previous := func() (*stint.Definition, error) { return s.current(ctx, c.OrgID, &a) }
	missing, err := s.checkSecrets(ctx, c, a.Name, d.definition, previous)
	if err != nil {
		return stint.AgentVersion{}, false, err
	}
	head, added, err := s.store.AddAgentVersion(ctx, c.OrgID, s.newVersion(c, a.ID, d, stint.TimeOf(s.now())))
	v = withoutDefinition(head)
	v.Warnings = append(d.warnings, missing...)
	return v, added, store.PublicError(err, "agent", agentID)
}

func (s *Service) newVersion(c auth.Caller, agentID string, d parsed, at stint.Time) store.AgentVersion {
	return store.AgentVersion{
		AgentVersion: stint.AgentVersion{
			ID: s.ids.New(stint.PrefixAgentVersion), AgentID: agentID, CreatedAt: at, Definition: d.canonical,
		},
		Digest: d.digest, CreatedBy: c.Name(),
	}
}

// withoutDefinition returns v without its definition, as lists contain it.
func withoutDefinition(v store.AgentVersion) stint.AgentVersion {
	v.Definition = nil
	return v.AgentVersion
}

// Get returns an agent.
func (s *Service) Get(ctx context.Context, org, id string) (stint.Agent, error) {
	a, err := store.Lookup(ctx, s.store.Agent, stint.PrefixAgent, org, id)
	return a.Agent, err
}

// ByName returns the agent with the name, ignoring case.
func (s *Service) ByName(ctx context.Context, org, name string) (stint.Agent, error) {
	name = strings.ToLower(name)
	if stint.CheckName("name", name) != nil {
		return stint.Agent{}, stint.NotFound("agent", name)
	}
	a, err := s.store.AgentByName(ctx, org, name)
	return a.Agent, store.PublicError(err, "agent", name)
}

// List returns a page of agents, newest first. If name is not empty, the list
// contains only the agent with that name, ignoring case.
func (s *Service) List(ctx context.Context, org, name string, r store.Range) ([]stint.Agent, error) {
	if name != "" {
		return s.listByName(ctx, org, name, r)
	}
	stored, err := s.store.Agents(ctx, org, r)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	agents := make([]stint.Agent, len(stored))
	for i, a := range stored {
		agents[i] = a.Agent
	}
	return agents, nil
}

// listByName returns a page of a list that contains only the agent with the name. If r
// selects a page after the first or other IDs, it is empty.
func (s *Service) listByName(ctx context.Context, org, name string, r store.Range) ([]stint.Agent, error) {
	a, err := s.ByName(ctx, org, name)
	switch {
	case stint.KindOf(err) == stint.KindNotFound || err == nil && r.After != store.Cursor{}:
		return nil, nil
	case err != nil:
		return nil, err
	case !strings.HasPrefix(a.ID, r.IDPrefix):
		return nil, nil
	}
	return []stint.Agent{a}, nil
}

// Delete hides an agent. Its name can be used again, and its runs are kept.
func (s *Service) Delete(ctx context.Context, c auth.Caller, id string) error {
	if !stint.IsID(stint.PrefixAgent, id) {
		return stint.NotFound("agent", id)
	}
	return store.PublicError(s.store.DeleteAgent(ctx, c.OrgID, id, stint.TimeOf(s.now())), "agent", id)
}
