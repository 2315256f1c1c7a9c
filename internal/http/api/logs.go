package api

import (
	"encoding/json"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/feed"
)

func (a *api) logs(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	kind := q.choice("type", "all", "all", string(stint.LogAgent), string(stint.LogSystem), string(stint.LogNetwork))
	ask := feed.LogQuery{
		Type:  stint.LogType(kind),
		Since: q.time("since"), Until: q.time("until"),
		Desc:  q.choice("order", "asc", "asc", "desc") == "desc",
		Limit: q.limit(),
	}
	if kind == "all" {
		ask.Type = ""
	}
	l := a.listOf(r, c, q, "type", "since", "until", "order")
	if position := l.position(); position != nil {
		ask.After = new(feed.LogCursor)
		if json.Unmarshal(position, ask.After) != nil {
			q.fail(errCursor)
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	id := r.PathValue("id")
	if err := a.mustSee(r, c, id); err != nil {
		return nil, err
	}
	entries, next, err := a.c.Feed.Logs(r.Context(), id, ask)
	if err != nil {
		return nil, err
	}
	page := stint.Page[stint.LogEntry]{Data: entries}
	if page.Data == nil {
		page.Data = []stint.LogEntry{}
	}
	if next != nil {
		position, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		page.Pagination = l.next(position)
	}
	return page, nil
}

// mustSee is nil when the run is one of the caller's organisation.
func (a *api) mustSee(r *http.Request, c auth.Caller, id string) error {
	if a.finished.get(c.OrgID+id) != nil {
		return nil
	}
	_, err := a.c.Runs.Get(r.Context(), c, id)
	return err
}
