package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

func (a *api) createAgent(p *post) (*response, error) {
	created, err := a.c.Agents.Create(p.r.Context(), p.caller, p.body)
	if err != nil {
		return nil, err
	}
	return createdResponse("/v1/agents/"+created.ID, created), nil
}

func (a *api) addAgentVersion(p *post) (*response, error) {
	v, added, err := a.c.Agents.AddVersion(p.r.Context(), p.caller, p.r.PathValue("id"), p.body)
	if err != nil {
		return nil, err
	}
	if !added {
		return jsonResponse(http.StatusOK, v), nil
	}
	return createdResponse(p.r.URL.Path+"/"+v.ID, v), nil
}

func (a *api) listAgents(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	name := q.name()
	key := func(x *stint.Agent) (stint.Time, string) { return x.CreatedAt, x.ID }
	return pageByTime(a.listOf(r, c, q, "name", "idPrefix").byID(stint.PrefixAgent), key, func(page store.Range) ([]stint.Agent, error) {
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
	key := func(v *stint.AgentVersion) (stint.Time, string) { return v.CreatedAt, v.ID }
	return pageByTime(a.listOf(r, c, queryOf(r)), key, func(page store.Range) ([]stint.AgentVersion, error) {
		return a.c.Agents.Versions(r.Context(), c.OrgID, r.PathValue("id"), page)
	})
}

func (a *api) getAgentVersion(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Agents.Version(r.Context(), c.OrgID, r.PathValue("id"), r.PathValue("v"))
}
