package definition

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint"
)

// Plan is the frozen plan of a run. It contains everything that was resolved when the
// run was created, but no values of secrets. It is stored with the run as JSON. If the
// run continues a session, the newest home and workspace are resolved when it starts.
type Plan struct {
	Definition  stint.Definition  `json:"definition"`
	Variables   map[string]string `json:"variables,omitempty"`
	SecretNames []string          `json:"secretNames,omitempty"`
	Volumes     []Volume          `json:"volumes,omitempty"`
	Artifact    *Artifact         `json:"artifact,omitempty"`
	// Home and Workspace are digests of snapshots. An empty digest means an empty
	// directory.
	Home      string `json:"home,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// FromSession is set if Home is taken from the session's newest checkpoint when
	// the run starts. If there is no artifact, Workspace is taken from it too.
	FromSession bool          `json:"fromSession,omitempty"`
	Timeout     time.Duration `json:"timeout"`
	OutputBytes int64         `json:"outputBytes"`
	Limits      stint.Limits  `json:"limits,omitzero"`
	// Depth is the number of ancestors: the run that started this run, the run that
	// started that run, and so on.
	Depth int `json:"depth,omitempty"`
	// Above contains the sessions of the ancestors. The ancestors may wait for this
	// run, so it must not be queued in their sessions.
	Above []string `json:"above,omitempty"`
	// AncestorSecrets contains the names of those secrets of the definition that the
	// definitions of all ancestors of the run name too. It is set if Depth is not 0.
	AncestorSecrets []string `json:"ancestorSecrets,omitempty"`
	// UnnamedSecrets is set if the agent's current version was stored by a release in
	// which every run received all stored secrets.
	UnnamedSecrets bool `json:"unnamedSecrets,omitempty"`
}

// CheckSecret returns an error if a run of the agent with this plan may not use a stored
// secret: the secret may be for other agents. If another run created the run, its agent
// may read only secrets that the definitions of all its ancestors name too.
func (s *Plan) CheckSecret(secret *stint.Secret, agent string) *stint.Error {
	switch {
	case !secret.IsFor(agent):
		return stint.InvalidState("The stored secret '%s' is not for the agent '%s'. An administrator can add it with 'stint secret set %s --agents'.", secret.Name, agent, secret.Name)
	case s.Depth > 0 && len(secret.Hosts) == 0 && ReadsSecret(&s.Definition, secret.Name) && !slices.Contains(s.AncestorSecrets, secret.Name):
		return stint.InvalidState("A run that an agent starts receives the stored secret '%s' only if the definitions of all agents that led to it name it too. Add it there, or store the secret with hosts.", secret.Name)
	}
	return nil
}

// Volume is a volume of a run with its resolved version and mount path.
type Volume struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Digest   string `json:"digest"`
	Path     string `json:"path"`
	Writable bool   `json:"writable,omitempty"`
}

// Artifact is the artifact from which a run's workspace is taken and to which the
// workspace is committed. Version is the ID of the version that the run starts from, and
// Digest the digest of its snapshot. If Latest is set, the version is the one that is
// current when the run starts or, for an artifact that a run inherits from its session, the
// one that store.Claim describes. Version is then set when the run starts.
type Artifact struct {
	Name    string `json:"name"`
	Digest  string `json:"digest,omitempty"`
	Latest  bool   `json:"latest,omitempty"`
	Version string `json:"version,omitempty"`
}

// Encode returns the stored form of the plan.
func (s *Plan) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode run plan: %w", err)
	}
	return b, nil
}

// DecodePlan decodes the stored form of a plan.
func DecodePlan(raw json.RawMessage) (*Plan, error) {
	var s Plan
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("decode run plan: %w", err)
	}
	return &s, nil
}
