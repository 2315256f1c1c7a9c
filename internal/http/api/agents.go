package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

func (a *api) createAgent(p *post) (*reply, error) {
	made, err := a.c.Agents.Create(p.r.Context(), p.caller, p.body)
	if err != nil {
		return nil, err
	}
	answer := jsonReply(http.StatusCreated, made)
	answer.set("Location", "/v1/agents/"+made.ID)
	return answer, nil
}

func (a *api) addAgentVersion(p *post) (*reply, error) {
	v, added, err := a.c.Agents.AddVersion(p.r.Context(), p.caller, p.r.PathValue("id"), p.body)
	if err != nil {
		return nil, err
	}
	if !added {
		return jsonReply(http.StatusOK, v), nil
	}
	answer := jsonReply(http.StatusCreated, v)
	answer.set("Location", p.r.URL.Path+"/"+v.ID)
	return answer, nil
}

func (a *api) listAgents(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	name, given := q.text("name")
	if given && name == "" {
		q.fail(stint.InvalidParam("name", "'name' must be the name of an agent."))
	}
	place := func(x *stint.Agent) (stint.Time, string) { return x.CreatedAt, x.ID }
	return paged(a.listOf(r, c, q, "name"), place, func(page store.Range) ([]stint.Agent, error) {
		return a.c.Agents.List(r.Context(), c.OrgID, name, page)
	})
}

func (a *api) getAgent(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Agents.Get(r.Context(), c.OrgID, r.PathValue("id"))
}

func (a *api) deleteAgent(r *http.Request, c auth.Caller) error {
	return a.c.Agents.Delete(r.Context(), c, r.PathValue("id"))
}

func (a *api) listAgentVersions(r *http.Request, c auth.Caller) (any, error) {
	place := func(v *stint.AgentVersion) (stint.Time, string) { return v.CreatedAt, v.ID }
	return paged(a.listOf(r, c, queryOf(r)), place, func(page store.Range) ([]stint.AgentVersion, error) {
		return a.c.Agents.Versions(r.Context(), c.OrgID, r.PathValue("id"), page)
	})
}

func (a *api) getAgentVersion(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Agents.Version(r.Context(), c.OrgID, r.PathValue("id"), r.PathValue("v"))
}
