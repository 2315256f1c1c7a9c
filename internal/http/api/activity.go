package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// activity returns the running and pending runs of the organisation.
func (a *api) activity(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	limit := q.limitFrom(stint.DefaultActivityLimit, stint.MaxActivityLimit)
	if q.err != nil {
		return nil, q.err
	}
	return a.c.Runs.Activity(r.Context(), c, limit)
}
