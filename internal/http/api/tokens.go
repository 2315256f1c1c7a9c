package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

// me returns the organisation, the user, and the token of the caller.
func (a *api) me(r *http.Request, c auth.Caller) (any, error) {
	token, err := a.c.Auth.Token(r.Context(), c, c.TokenID)
	if err != nil {
		return nil, err
	}
	type named struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	return struct {
		Organization named       `json:"organization"`
		User         named       `json:"user"`
		Token        stint.Token `json:"token"`
	}{named{c.OrgID, c.OrgName}, named{c.UserID, c.UserName}, token}, nil
}

func (a *api) createToken(p *post) (*response, error) {
	var n stint.NewToken
	if err := decodeLimited(p.body, &n, "expiresInDays", "expiresAt", "scopes"); err != nil {
		return nil, err
	}
	created, err := a.c.Auth.CreateToken(p.r.Context(), p.caller, n)
	if err != nil {
		return nil, err
	}
	return createdResponse("/v1/tokens/"+created.ID, created), nil
}

func (a *api) listTokens(r *http.Request, c auth.Caller) (any, error) {
	l := a.listOf(r, c, queryOf(r), "idPrefix").byID(stint.PrefixToken)
	key := func(t *stint.Token) (stint.Time, string) { return t.CreatedAt, t.ID }
	return pageByTime(l, key, func(page store.Range) ([]stint.Token, error) {
		return a.c.Auth.Tokens(r.Context(), c, page)
	})
}

func (a *api) getToken(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Auth.Token(r.Context(), c, r.PathValue("id"))
}

func (a *api) revokeToken(r *http.Request, c auth.Caller) error {
	return a.c.Auth.RevokeToken(r.Context(), c, r.PathValue("id"))
}
