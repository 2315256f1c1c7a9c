// Package agents manages agents and their versions.
//
// An agent has a name, and its current version contains its definition. A
// definition is stored without the name. Equivalent definitions, which may
// differ in the order of keys, are one version.
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

// Config is what a Service needs. Now defaults to the real clock.
type Config struct {
	Store store.Agents
	IDs   *stint.IDs
	Now   func() time.Time
	// Check refuses definitions that ask for what is known not to be offered
	// here; nil refuses none.
	Check func(*stint.Definition) error
}

// Service keeps agents. It is safe for concurrent use.
type Service struct {
	store store.Agents
	ids   *stint.IDs
	now   func() time.Time
	check func(*stint.Definition) error
}

// New makes a service.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{store: c.Store, ids: c.IDs, now: c.Now, check: c.Check}
}

// Create stores a new agent with its first version. raw is the definition with
// the agent's name in it.
func (s *Service) Create(ctx context.Context, c auth.Caller, raw []byte) (stint.Agent, error) {
	d, err := s.digestOf(raw)
	if err != nil {
		return stint.Agent{}, err
	}
	if e := stint.CheckName("name", d.name); e != nil {
		return stint.Agent{}, e
	}
	now := stint.TimeOf(s.now())
	v := s.version(c, s.ids.New(stint.PrefixAgent), d, now)
	v.VersionNumber = 1
	a := stint.Agent{ID: v.AgentID, Name: d.name, CurrentVersionID: v.ID, CreatedAt: now, UpdatedAt: now}
	err = s.store.CreateAgent(ctx, store.Agent{Agent: a, OrgID: c.OrgID}, v)
	if errors.Is(err, store.ErrExists) {
		return stint.Agent{}, stint.AlreadyExists("agent", d.name)
	}
	if err != nil {
		return stint.Agent{}, fmt.Errorf("create agent %s: %w", d.name, err)
	}
	return a, nil
}

// AddVersion gives an agent a new definition. When the current one means the
// same nothing changes, added is false and the current version is returned.
// The name in raw must be the agent's or be left out.
func (s *Service) AddVersion(ctx context.Context, c auth.Caller, agentID string, raw []byte) (v stint.AgentVersion, added bool, err error) {
	a, err := s.Get(ctx, c.OrgID, agentID)
	if err != nil {
		return stint.AgentVersion{}, false, err
	}
	d, err := s.digestOf(raw)
	if err != nil {
		return stint.AgentVersion{}, false, err
	}
	if d.name != "" && d.name != a.Name {
		return stint.AgentVersion{}, false, stint.InvalidParam("name",
			"The definition is for '%s', but this agent is '%s'. Leave 'name' out or create another agent.", d.name, a.Name)
	}
	head, added, err := s.store.AddAgentVersion(ctx, c.OrgID, s.version(c, a.ID, d, stint.TimeOf(s.now())))
	if errors.Is(err, store.ErrNotFound) {
		return stint.AgentVersion{}, false, stint.NotFound("agent", agentID)
	}
	if err != nil {
		return stint.AgentVersion{}, false, fmt.Errorf("add a version to agent %s: %w", a.ID, err)
	}
	return brief(head), added, nil
}

func (s *Service) version(c auth.Caller, agentID string, d digested, at stint.Time) store.AgentVersion {
	return store.AgentVersion{
		AgentVersion: stint.AgentVersion{
			ID: s.ids.New(stint.PrefixAgentVersion), AgentID: agentID, CreatedAt: at, Definition: d.definition,
		},
		Digest: d.digest, CreatedBy: c.Name(),
	}
}

// brief is a version as lists and answers to its creation show it.
func brief(v store.AgentVersion) stint.AgentVersion {
	v.Definition = nil
	return v.AgentVersion
}

// Get reads an agent.
func (s *Service) Get(ctx context.Context, org, id string) (stint.Agent, error) {
	if !stint.IsID(stint.PrefixAgent, id) {
		return stint.Agent{}, stint.NotFound("agent", id)
	}
	a, err := s.store.Agent(ctx, org, id)
	if errors.Is(err, store.ErrNotFound) {
		return stint.Agent{}, stint.NotFound("agent", id)
	}
	if err != nil {
		return stint.Agent{}, fmt.Errorf("read agent %s: %w", id, err)
	}
	return a.Agent, nil
}

// ByName reads the agent of that name, whatever the case of its letters.
func (s *Service) ByName(ctx context.Context, org, name string) (stint.Agent, error) {
	name = strings.ToLower(name)
	if stint.CheckName("name", name) != nil {
		return stint.Agent{}, stint.NotFound("agent", name)
	}
	a, err := s.store.AgentByName(ctx, org, name)
	if errors.Is(err, store.ErrNotFound) {
		return stint.Agent{}, stint.NotFound("agent", name)
	}
	if err != nil {
		return stint.Agent{}, fmt.Errorf("read agent %q: %w", name, err)
	}
	return a.Agent, nil
}

// List reads a page of agents, newest first. A name narrows it to the one
// agent of that name, whatever the case of its letters.
func (s *Service) List(ctx context.Context, org, name string, r store.Range) ([]stint.Agent, error) {
	if name != "" {
		return s.listed(ctx, org, name, r)
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

// listed is the list of the one agent with that name, which has no second page.
func (s *Service) listed(ctx context.Context, org, name string, r store.Range) ([]stint.Agent, error) {
	a, err := s.ByName(ctx, org, name)
	switch {
	case stint.KindOf(err) == stint.KindNotFound || err == nil && r.After != store.Cursor{}:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []stint.Agent{a}, nil
}

// Delete hides an agent. Its name becomes free, its runs stay.
func (s *Service) Delete(ctx context.Context, c auth.Caller, id string) error {
	if !stint.IsID(stint.PrefixAgent, id) {
		return stint.NotFound("agent", id)
	}
	err := s.store.DeleteAgent(ctx, c.OrgID, id, stint.TimeOf(s.now()))
	if errors.Is(err, store.ErrNotFound) {
		return stint.NotFound("agent", id)
	}
	if err != nil {
		return fmt.Errorf("delete agent %s: %w", id, err)
	}
	return nil
}
