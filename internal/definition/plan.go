// Package definition answers: what was frozen when a run was created?
//
// A run is worked with exactly what its creation resolved, whatever is pushed
// in between. Only a run that continues a session leaves two things open until
// it starts: the session's newest home and workspace.
package definition

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
)

// Plan is the frozen plan of a run, stored as JSON beside it. It holds no
// secret values.
type Plan struct {
	Definition  stint.Definition  `json:"definition"`
	Variables   map[string]string `json:"variables,omitempty"`
	SecretNames []string          `json:"secretNames,omitempty"`
	Volumes     []Volume          `json:"volumes,omitempty"`
	Artifact    *Artifact         `json:"artifact,omitempty"`
	// Home and Workspace are digests of stored trees; empty for an empty folder.
	Home      string `json:"home,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// FromSession asks to take Home, and Workspace where LatestArtifact or no
	// artifact rules it, from the session's newest checkpoint at the start.
	FromSession bool          `json:"fromSession,omitempty"`
	Timeout     time.Duration `json:"timeout"`
	OutputBytes int64         `json:"outputBytes"`
	Limits      stint.Limits  `json:"limits,omitzero"`
	// Depth counts the runs that started one another down to this one.
	Depth int `json:"depth,omitempty"`
	// Above are the sessions of those runs: each of them may wait for this run,
	// so this run must not wait in any of them.
	Above []string `json:"above,omitempty"`
}

// Volume is a resolved mount.
type Volume struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Digest   string `json:"digest"`
	Path     string `json:"path"`
	Writable bool   `json:"writable,omitempty"`
}

// Artifact is where the workspace goes at the end, and where it comes from:
// Digest is the tree of the version that was asked for; Latest asks for the
// head as it is when the run starts.
type Artifact struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"`
	Latest bool   `json:"latest,omitempty"`
}

// Encode writes the stored form.
func (s *Plan) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode run spec: %w", err)
	}
	return b, nil
}

// DecodePlan reads the stored form.
func DecodePlan(raw json.RawMessage) (*Plan, error) {
	var s Plan
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("decode run spec: %w", err)
	}
	return &s, nil
}
