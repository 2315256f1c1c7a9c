package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

func (a *api) listSessions(r *http.Request, c auth.Caller) (any, error) {
	l := a.listOf(r, c, queryOf(r), "idPrefix").byID(stint.PrefixSession)
	key := func(s *stint.Session) (stint.Time, string) { return s.CreatedAt, s.ID }
	return pageByTime(l, key, func(page store.Range) ([]stint.Session, error) {
		return a.c.Runs.Sessions(r.Context(), c, page)
	})
}

func (a *api) getSession(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Runs.Session(r.Context(), c, r.PathValue("id"))
}

func (a *api) getCheckpoint(r *http.Request, c auth.Caller) (any, error) {
	return a.c.Runs.Checkpoint(r.Context(), c, r.PathValue("id"))
}
