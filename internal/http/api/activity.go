package api

import (
	"net/http"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// activity returns the running and pending runs of the organisation.
func (a *api) activity(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	limit := stint.DefaultActivityLimit
	if value, ok := q.text("limit"); ok {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > stint.MaxActivityLimit || strconv.Itoa(n) != value {
			q.fail(stint.InvalidParam("limit", "'limit' must be a whole number from 1 to %d.", stint.MaxActivityLimit))
		}
		limit = n
	}
	if q.err != nil {
		return nil, q.err
	}
	return a.c.Runs.Activity(r.Context(), c, limit)
}
