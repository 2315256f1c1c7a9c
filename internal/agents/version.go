package agents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/jsonschema"
	"github.com/stint-dev/stint/internal/store"
)

// Latest is the specifier of an agent's current version.
const Latest = "latest"

// Versions reads a page of an agent's versions, newest first, without their
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
		versions[i] = brief(v)
	}
	return versions, nil
}

// Version reads one version with its definition, the agent's name in it, so
// that it can be pushed as it is; spec is what ResolveVersion takes.
func (s *Service) Version(ctx context.Context, org, agentID, spec string) (stint.AgentVersion, error) {
	a, v, err := s.locate(ctx, org, agentID, spec)
	if err != nil {
		return stint.AgentVersion{}, err
	}
	v.Definition, err = withName(v.Definition, a.Name)
	return v.AgentVersion, err
}

func withName(definition json.RawMessage, name string) (json.RawMessage, error) {
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(definition))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, fmt.Errorf("read a stored definition: %w", err)
	}
	members["name"] = name
	named, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("write a definition: %w", err)
	}
	return named, nil
}

// ResolveVersion finds a version of an agent by its specifier: latest (also
// when empty), an identifier, v<N> or <N>.
func (s *Service) ResolveVersion(ctx context.Context, org, agentID, spec string) (store.AgentVersion, error) {
	_, v, err := s.locate(ctx, org, agentID, spec)
	return v, err
}

func (s *Service) locate(ctx context.Context, org, agentID, spec string) (stint.Agent, store.AgentVersion, error) {
	a, err := s.Get(ctx, org, agentID)
	if err != nil {
		return stint.Agent{}, store.AgentVersion{}, err
	}
	id, number, ok := parseSpec(spec)
	if !ok {
		return stint.Agent{}, store.AgentVersion{}, stint.NotFound("agent version", spec)
	}
	if id == "" && number == 0 {
		id = a.CurrentVersionID
	}
	v, err := s.store.AgentVersion(ctx, org, agentID, id, number)
	if errors.Is(err, store.ErrNotFound) {
		return stint.Agent{}, store.AgentVersion{}, stint.NotFound("agent version", spec)
	}
	if err != nil {
		return stint.Agent{}, store.AgentVersion{}, fmt.Errorf("read version %q of agent %s: %w", spec, agentID, err)
	}
	return a, v, nil
}

// parseSpec takes a specifier apart; id and number are both zero for latest.
func parseSpec(spec string) (id string, number int64, ok bool) {
	if spec == "" || spec == Latest {
		return "", 0, true
	}
	if stint.IsID(stint.PrefixAgentVersion, spec) {
		return spec, 0, true
	}
	digits := strings.TrimPrefix(spec, "v")
	number, err := strconv.ParseInt(digits, 10, 64)
	return "", number, err == nil && number >= 1 && strconv.FormatInt(number, 10) == digits
}

// digested is a definition taken apart: the name that belongs to the agent,
// and the rest in canonical form with its digest.
type digested struct {
	name       string
	definition json.RawMessage
	digest     string // hex SHA-256
}

// digestOf checks a definition and takes its name and the members that are
// null, which say nothing, out of it.
func (s *Service) digestOf(raw []byte) (digested, error) {
	parsed, err := definition.Parse(raw)
	if err == nil {
		err = checkFramework(parsed)
	}
	if err == nil && s.check != nil {
		err = s.check(parsed)
	}
	if err == nil && parsed.Schema() != nil {
		if fault := jsonschema.CheckSchema(parsed.Schema()); fault != nil {
			err = stint.InvalidParam("output.schema", "'output.schema' cannot be used: %s", fault)
		}
	}
	if err != nil {
		return digested{}, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return digested{}, fmt.Errorf("take a definition apart: %w", err)
	}
	delete(members, "name")
	for key, value := range members {
		if bytes.Equal(value, []byte("null")) {
			delete(members, key)
		}
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return digested{}, fmt.Errorf("write a definition: %w", err)
	}
	canonical, err := definition.CanonicalJSON(rest)
	if err != nil {
		return digested{}, err
	}
	digest := sha256.Sum256(canonical)
	return digested{name: parsed.Name, definition: canonical, digest: hex.EncodeToString(digest[:])}, nil
}
