package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint"
)

// Agents keeps agents and their definitions.
type Agents struct{ c *Client }

// Create makes an agent from a definition in JSON, its name included. A name
// that exists is an *Error with the code resource_already_exists.
func (a *Agents) Create(ctx context.Context, definition json.RawMessage) (*stint.Agent, error) {
	agent := new(stint.Agent)
	post := call{method: http.MethodPost, path: []string{"agents"}, body: definition, key: newKey()}
	if err := a.c.do(ctx, post, agent); err != nil {
		return nil, err
	}
	return agent, nil
}

// CreateVersion gives an agent a new definition. When it is the same as the
// current one nothing changes, added is false and the version the current one.
func (a *Agents) CreateVersion(ctx context.Context, id string, definition json.RawMessage) (v *stint.AgentVersion, added bool, err error) {
	v = new(stint.AgentVersion)
	post := call{method: http.MethodPost, path: []string{"agents", id, "versions"}, body: definition, key: newKey()}
	status, err := a.c.doStatus(ctx, post, v)
	if err != nil {
		return nil, false, err
	}
	return v, status == http.StatusCreated, nil
}

// Get reads one agent by its ID.
func (a *Agents) Get(ctx context.Context, id string) (*stint.Agent, error) {
	return get[*stint.Agent](ctx, a.c, "agents", id)
}

// Find reads one agent by its name or its ID. One that does not exist is an
// *Error with the code resource_not_found.
func (a *Agents) Find(ctx context.Context, nameOrID string) (*stint.Agent, error) {
	if stint.IsID(stint.PrefixAgent, nameOrID) {
		return a.Get(ctx, nameOrID)
	}
	for agent, err := range list[stint.Agent](ctx, a.c, url.Values{"name": {nameOrID}}, 0, "agents") {
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(agent.Name, nameOrID) {
			return &agent, nil
		}
	}
	return nil, noSuch("agent", nameOrID)
}

// List walks the agents, newest first. An error ends the walk.
func (a *Agents) List(ctx context.Context) iter.Seq2[stint.Agent, error] {
	return list[stint.Agent](ctx, a.c, nil, 0, "agents")
}

// Page reads one page of the agents, newest first.
func (a *Agents) Page(ctx context.Context, o *PageOptions) (*stint.Page[stint.Agent], error) {
	return page[stint.Agent](ctx, a.c, nil, o, "agents")
}

// Versions walks the versions of an agent, newest first.
func (a *Agents) Versions(ctx context.Context, id string) iter.Seq2[stint.AgentVersion, error] {
	return list[stint.AgentVersion](ctx, a.c, nil, 0, "agents", id, "versions")
}

// Version reads one version with its definition: by ID, number or "latest".
func (a *Agents) Version(ctx context.Context, id, version string) (*stint.AgentVersion, error) {
	return get[*stint.AgentVersion](ctx, a.c, "agents", id, "versions", version)
}

// Delete removes an agent. Its runs stay.
func (a *Agents) Delete(ctx context.Context, id string) error {
	return remove(ctx, a.c, "agents", id)
}

// noSuch is the server's own answer for a name that a list does not hold.
func noSuch(noun, asked string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: "not_found_error",
		Code: stint.CodeResourceNotFound, Message: stint.NotFound(noun, asked).Message,
	}
}
