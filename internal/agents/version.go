package agents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// Versions returns a page of an agent's versions, newest first, without their
// definitions.
func (s *Service) Versions(ctx context.Context, org, agentID string, r store.Range) ([]stint.AgentVersion, error) {
	if _, err := s.Get(ctx, org, agentID); err != nil {
		return nil, err
	}
	stored, err := s.store.AgentVersions(ctx, org, agentID, r)
	if err != nil {
		return nil, fmt.Errorf("list versions of agent %s: %w", agentID, err)
	}
	versions := make([]stint.AgentVersion, len(stored))
	for i, v := range stored {
		versions[i] = withoutDefinition(v)
	}
	return versions, nil
}

// Version returns a version by its reference; see stint.ParseVersion. The
// definition contains the agent's name.
func (s *Service) Version(ctx context.Context, org, agentID, reference string) (stint.AgentVersion, error) {
	a, err := s.Get(ctx, org, agentID)
	if err != nil {
		return stint.AgentVersion{}, err
	}
	id, number, ok := stint.ParseVersion(reference, stint.IsAgentVersion)
	if !ok {
		return stint.AgentVersion{}, stint.NotFound("agent version", reference)
	}
	if id == "" && number == 0 {
		id = a.CurrentVersionID
	}
	v, err := s.store.AgentVersion(ctx, org, agentID, id, number)
	if err != nil {
		return stint.AgentVersion{}, store.PublicError(err, "agent version", reference)
	}
	v.Definition, err = withName(v.Definition, a.Name)
	return v.AgentVersion, err
}

// current returns the definition of the agent's current version.
func (s *Service) current(ctx context.Context, org string, a *stint.Agent) (*stint.Definition, error) {
	v, err := s.store.AgentVersion(ctx, org, a.ID, a.CurrentVersionID, 0)
	if err != nil {
		return nil, store.PublicError(err, "agent version", a.CurrentVersionID)
	}
	d := new(stint.Definition) // validated when it was stored
	if err := json.Unmarshal(v.Definition, d); err != nil {
		return nil, fmt.Errorf("decode definition %s: %w", v.ID, err)
	}
	return d, nil
}

func withName(raw json.RawMessage, name string) (json.RawMessage, error) {
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, fmt.Errorf("decode a stored definition: %w", err)
	}
	members["name"] = name
	named, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encode a definition: %w", err)
	}
	return named, nil
}

// parsed is a valid definition: the agent's name, and the other members in
// canonical form with their digest.
type parsed struct {
	name       string
	definition *stint.Definition
	canonical  json.RawMessage
	digest     string // hex SHA-256
	warnings   []stint.Warning
}

// parse validates a definition, and removes its name and its top-level members that
// are null. The error lists all faults. If named is true, the definition must contain
// the agent's name.
func (s *Service) parse(ctx context.Context, raw []byte, named bool) (parsed, error) {
	d, errs := definition.Errors(raw)
	if d == nil {
		return parsed{}, stint.JoinErrors(errs...)
	}
	if named && d.Name == "" {
		errs = definition.AppendErrors(errs, stint.CheckName("name", d.Name))
	}
	errs = definition.AppendErrors(errs, checkFramework(d)...)
	var warnings []stint.Warning
	if s.check != nil {
		offered, err := s.check(ctx, d)
		if err != nil {
			return parsed{}, err
		}
		errs, warnings = definition.AppendErrors(errs, offered.Errors...), offered.Warnings
	}
	if err := stint.JoinErrors(errs...); err != nil {
		return parsed{}, err
	}
	canonical, err := canonicalForm(raw)
	if err != nil {
		return parsed{}, err
	}
	digest := sha256.Sum256(canonical)
	return parsed{d.Name, d, canonical, hex.EncodeToString(digest[:]), append(definition.Warnings(d), warnings...)}, nil
}

// canonicalForm returns the stored form of a definition: its members other than the
// name and null, as canonical JSON.
func canonicalForm(raw []byte) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("decode a definition: %w", err)
	}
	delete(members, "name")
	for key, value := range members {
		if bytes.Equal(value, []byte("null")) {
			delete(members, key)
		}
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encode a definition: %w", err)
	}
	return definition.CanonicalJSON(rest)
}
