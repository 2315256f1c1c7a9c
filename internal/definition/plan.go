package definition

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
)

// Plan is the frozen plan of a run: everything that its creation resolved. It is
// stored with the run as JSON and contains no secret values. In a run that
// continues a session, the newest home and workspace are resolved at its start.
type Plan struct {
	Definition  stint.Definition  `json:"definition"`
	Variables   map[string]string `json:"variables,omitempty"`
	SecretNames []string          `json:"secretNames,omitempty"`
	Volumes     []Volume          `json:"volumes,omitempty"`
	Artifact    *Artifact         `json:"artifact,omitempty"`
	// Home and Workspace are digests of snapshots; empty for empty directories.
	Home      string `json:"home,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	// FromSession is set if Home, and Workspace without an artifact, are taken from
	// the session's newest checkpoint when the run starts.
	FromSession bool          `json:"fromSession,omitempty"`
	Timeout     time.Duration `json:"timeout"`
	OutputBytes int64         `json:"outputBytes"`
	Limits      stint.Limits  `json:"limits,omitzero"`
	// Depth is the number of ancestors: runs that started one another.
	Depth int `json:"depth,omitempty"`
	// Above contains the sessions of the ancestors. They may wait for this run, so
	// it must not wait in any of them.
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

// Artifact is the artifact from which the workspace is taken and to which it is
// committed. Digest is the snapshot of the requested version. Latest requests the
// head at the start of the run.
type Artifact struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"`
	Latest bool   `json:"latest,omitempty"`
}

// Encode returns the stored form.
func (s *Plan) Encode() (json.RawMessage, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode run plan: %w", err)
	}
	return b, nil
}

// DecodePlan decodes the stored form.
func DecodePlan(raw json.RawMessage) (*Plan, error) {
	var s Plan
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("decode run plan: %w", err)
	}
	return &s, nil
}
