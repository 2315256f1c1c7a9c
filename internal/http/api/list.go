package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/store"
)

// list is a paged list that a request reads, identified by its path and filters.
type list struct {
	paging.List
	q        *query
	idPrefix string // of the items' IDs; see byID
}

// listOf returns the list at the path of the request. filters are the names of the
// query parameters that filter the list. A name that ends with '[' matches all
// parameters with that prefix.
func (a *api) listOf(r *http.Request, c auth.Caller, q *query, filters ...string) *list {
	given := url.Values{}
	for name, values := range q.values {
		for _, f := range filters {
			if name == f || strings.HasSuffix(f, "[") && strings.HasPrefix(name, f) {
				given[name] = values
			}
		}
	}
	return &list{paging.List{Signer: a.c.Auth, Org: c.OrgID, Name: r.URL.Path + "?" + given.Encode()}, q, ""}
}

// byID restricts a list to the IDs that begin with the parameter 'idPrefix', which is one
// of the list's filters. prefix is the prefix of the IDs of all items.
func (l *list) byID(prefix string) *list {
	l.idPrefix = l.q.idPrefix(prefix)
	return l
}

// position returns the position in the cursor of the request. It returns nil for the
// first page. It records an invalid cursor as an error in l.q.
func (l *list) position() []byte {
	cursor, ok := l.q.text("cursor")
	if !ok {
		return nil
	}
	position, err := l.Position(cursor)
	if err != nil {
		l.q.fail(err)
	}
	return position
}

// pageByTime returns a page of a list that is sorted by time and ID. key returns the
// time and the ID of an item. fetch returns the items of a range. pageByTime requests
// one item more than the page contains, to find out whether another page follows.
func pageByTime[T any](l *list, key func(*T) (stint.Time, string), fetch func(store.Range) ([]T, error)) (any, error) {
	limit := l.q.limit()
	after, err := paging.DecodeKey(l.position())
	if err != nil {
		l.q.fail(err)
	}
	if l.q.err != nil {
		return nil, l.q.err
	}
	items, err := fetch(store.Range{After: after, Limit: limit + 1, IDPrefix: l.idPrefix})
	if err != nil {
		return nil, err
	}
	return paging.Encode(l.List, items[:min(len(items), limit)], len(items) > limit, func(last *T) []byte {
		return paging.EncodeKey(key(last))
	})
}
