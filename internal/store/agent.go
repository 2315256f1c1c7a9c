package store

import (
	"context"

	"github.com/stint-dev/stint"
)

// Agents stores agents and their versions.
type Agents interface {
	// CreateAgent stores a new agent with its first version. If the
	// organisation has an agent with that name, the error is ErrExists.
	CreateAgent(ctx context.Context, a Agent, v AgentVersion) error
	// AddAgentVersion appends a version and makes it the current one. The store
	// sets its number. If the current version has the same Digest, nothing
	// changes and added is false.
	AddAgentVersion(ctx context.Context, org string, v AgentVersion) (head AgentVersion, added bool, err error)
	Agent(ctx context.Context, org, id string) (Agent, error)
	AgentByName(ctx context.Context, org, name string) (Agent, error)
	Agents(ctx context.Context, org string, r Range) ([]Agent, error)
	// AgentVersion returns a version by its ID, or by its number if id is
	// empty.
	AgentVersion(ctx context.Context, org, agent, id string, number int64) (AgentVersion, error)
	AgentVersions(ctx context.Context, org, agent string, r Range) ([]AgentVersion, error)
	// DeleteAgent hides the agent. Its name can be used again; its runs remain.
	DeleteAgent(ctx context.Context, org, id string, at stint.Time) error
}

// Agent is a stored agent.
type Agent struct {
	stint.Agent
	OrgID string
	// UnnamedSecrets is set if the current version was stored by a release in which
	// every run received all stored secrets. Only a migration sets it.
	UnnamedSecrets bool
}

// AgentVersion is a stored version with its definition and the digest of the
// definition's canonical form.
type AgentVersion struct {
	stint.AgentVersion
	Digest    string
	CreatedBy string
}
