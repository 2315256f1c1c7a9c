package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint"
)

// Agents manages agents and their definitions.
type Agents struct{ c *Client }

// Create creates an agent from a JSON definition, which contains its name. If an agent
// with this name exists, Create returns an *Error with the code
// resource_already_exists.
func (a *Agents) Create(ctx context.Context, definition json.RawMessage) (*stint.Agent, error) {
	return fetch[stint.Agent](ctx, a.c, call{method: http.MethodPost, path: []string{"agents"}, body: definition, key: rand.Text()})
}

// CreateVersion stores a new definition of an agent. If it equals the current one,
// CreateVersion returns the current version and added is false.
func (a *Agents) CreateVersion(ctx context.Context, id string, definition json.RawMessage) (v *stint.AgentVersion, added bool, err error) {
	post := call{method: http.MethodPost, path: []string{"agents", id, "versions"}, body: definition, key: rand.Text()}
	return create[stint.AgentVersion](ctx, a.c, post)
}

// Get returns an agent by its ID.
func (a *Agents) Get(ctx context.Context, id string) (*stint.Agent, error) {
	return get[stint.Agent](ctx, a.c, "agents", id)
}

// Find returns an agent by its name or ID. If there is no such agent, it returns an
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
	return nil, notFound("agent", nameOrID)
}

// List iterates over the agents, newest first. The iteration ends after an error.
func (a *Agents) List(ctx context.Context) iter.Seq2[stint.Agent, error] {
	return list[stint.Agent](ctx, a.c, nil, 0, "agents")
}

// Page returns one page of the agents, newest first.
func (a *Agents) Page(ctx context.Context, o *PageOptions) (*stint.Page[stint.Agent], error) {
	return page[stint.Agent](ctx, a.c, nil, o, "agents")
}

// Versions iterates over the versions of an agent, newest first.
func (a *Agents) Versions(ctx context.Context, id string) iter.Seq2[stint.AgentVersion, error] {
	return list[stint.AgentVersion](ctx, a.c, nil, 0, "agents", id, "versions")
}

// Version returns a version with its definition. version is an ID, a number, or
// "latest".
func (a *Agents) Version(ctx context.Context, id, version string) (*stint.AgentVersion, error) {
	return get[stint.AgentVersion](ctx, a.c, "agents", id, "versions", version)
}

// Delete deletes an agent. Its runs are kept.
func (a *Agents) Delete(ctx context.Context, id string) error {
	return remove(ctx, a.c, "agents", id)
}

// notFound returns the same error as the server does for an unknown ID. noun is the
// kind of the resource.
func notFound(noun, asked string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: "not_found_error",
		Code: stint.CodeResourceNotFound, Message: stint.NotFound(noun, asked).Message,
	}
}
