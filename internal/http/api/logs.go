package api

import (
	"encoding/json"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/paging"
)

func (a *api) logs(r *http.Request, c auth.Caller) (any, error) {
	q := queryOf(r)
	logType := q.choice("type", "all", "all", string(stint.LogAgent), string(stint.LogSystem), string(stint.LogNetwork))
	logQuery := feed.LogQuery{
		Since: q.time("since"), Until: q.time("until"),
		Desc:  q.choice("order", "asc", "asc", "desc") == "desc",
		Limit: q.limit(), Follow: q.choice("follow", "false", "false", "true") == "true",
	}
	if logQuery.Follow && (logQuery.Desc || logQuery.Until != nil) {
		q.fail(stint.InvalidParam("follow", "'follow' excludes 'until' and order=desc."))
	}
	if logType != "all" {
		logQuery.Type = stint.LogType(logType)
	}
	l := a.listOf(r, c, q, "type", "since", "until", "order", "follow")
	if position := l.position(); position != nil {
		logQuery.After = new(feed.LogCursor)
		if json.Unmarshal(position, logQuery.After) != nil {
			q.fail(paging.ErrCursor)
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	id := r.PathValue("id")
	if err := a.checkRun(r, c, id); err != nil {
		return nil, err
	}
	entries, next, err := a.c.Feed.Logs(r.Context(), id, logQuery)
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
		page.Pagination = l.Next(position)
		page.Pagination.HasMore = !logQuery.Follow || len(page.Data) == logQuery.Limit
	}
	return page, nil
}
