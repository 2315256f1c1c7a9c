package api

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

// query is the parameters of an address. The first fault of its readers is
// kept, so that a handler asks once, at the end.
type query struct {
	values url.Values
	err    error
}

func queryOf(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &query{err: stint.InvalidParam("query", "The query of the address is malformed. Write '%%' as '%%25' and ';' as '%%3B'.")}
	}
	return &query{values: values}
}

func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// text reads a parameter; given tells whether it is there.
func (q *query) text(name string) (value string, given bool) {
	all := q.values[name]
	if len(all) > 1 {
		q.fail(stint.InvalidParam(name, "'%s' is given more than once.", name))
	}
	if len(all) == 0 {
		return "", false
	}
	return all[0], true
}

// choice reads a parameter that must be one of a few words.
func (q *query) choice(name, otherwise string, words ...string) string {
	value, given := q.text(name)
	if !given {
		return otherwise
	}
	if slices.Contains(words, value) {
		return value
	}
	q.fail(stint.InvalidParam(name, "'%s' must be one of %s.", name, strings.Join(words, ", ")))
	return otherwise
}

// time reads an instant. An offset's '+' that was not escaped is forgiven.
func (q *query) time(name string) *stint.Time {
	value, given := q.text(name)
	if !given {
		return nil
	}
	t, err := stint.ParseTime(strings.ReplaceAll(value, " ", "+"))
	if err != nil {
		q.fail(stint.InvalidParam(name, "'%s' must be a time such as 2026-01-02T15:04:05.000Z.", name))
		return nil
	}
	return &t
}

// id reads an identifier to filter by. One that nothing can have stays one
// that nothing has.
func (q *query) id(name, prefix string) string {
	value, given := q.text(name)
	if given && !stint.IsID(prefix, value) {
		return prefix + "none"
	}
	return value
}

// limit reads how many items a page may have.
func (q *query) limit() int {
	value, given := q.text("limit")
	if !given {
		return stint.DefaultLimit
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > stint.MaxLimit || strconv.Itoa(n) != value {
		q.fail(stint.InvalidParam("limit", "'limit' must be a whole number from 1 to %d.", stint.MaxLimit))
		return stint.DefaultLimit
	}
	return n
}

// listing is one list as a caller sees it: cursors of another do not work in it.
type listing struct {
	a    *api
	org  string
	name string
	q    *query
}

// listOf names the list by its path and by the filters that were given.
func (a *api) listOf(r *http.Request, c auth.Caller, q *query, filters ...string) *listing {
	given := url.Values{}
	for name, values := range q.values {
		for _, f := range filters {
			if name == f || strings.HasSuffix(f, "[") && strings.HasPrefix(name, f) {
				given[name] = values
			}
		}
	}
	return &listing{a: a, org: c.OrgID, name: r.URL.Path + "?" + given.Encode(), q: q}
}

// position gives back what next wrote into the cursor; nil for the first page.
func (l *listing) position() []byte {
	cursor, given := l.q.text("cursor")
	if !given {
		return nil
	}
	position, ok := l.a.c.Auth.VerifyCursor(l.org, l.name, cursor)
	if !ok {
		l.q.fail(errCursor)
	}
	return position
}

var errCursor = stint.InvalidParam("cursor", "'cursor' is no cursor of this list. Pass pagination.nextCursor of the page before, with the same filters.")

// next is the pagination of a page with more behind position.
func (l *listing) next(position []byte) stint.Pagination {
	cursor := l.a.c.Auth.SignCursor(l.org, l.name, position)
	return stint.Pagination{HasMore: true, NextCursor: &cursor}
}

// after reads a position of a list that is ordered by time and identifier.
func (l *listing) after() store.Cursor {
	position := l.position()
	if position == nil {
		return store.Cursor{}
	}
	micros, id, _ := strings.Cut(string(position), " ")
	us, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		l.q.fail(errCursor)
	}
	return store.Cursor{At: stint.TimeOfMicros(us), ID: id}
}

// paged reads one page of a list that is ordered by time and identifier: one
// item more than asked tells whether there are further ones.
func paged[T any](l *listing, place func(*T) (stint.Time, string), fetch func(store.Range) ([]T, error)) (any, error) {
	limit, after := l.q.limit(), l.after()
	if l.q.err != nil {
		return nil, l.q.err
	}
	items, err := fetch(store.Range{After: after, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	return pageOf(l, items[:min(len(items), limit)], len(items) > limit, func(last *T) []byte {
		at, id := place(last)
		return append(append(strconv.AppendInt(nil, at.UnixMicro(), 10), ' '), id...)
	}), nil
}

// maxPage is how many bytes of items make a page, however many are asked for;
// the item that reaches it is the last.
const maxPage = 8 << 20

// pageOf writes items, up to maxPage. There are more behind them if more says
// so or if not all are written; position is that of the last one.
func pageOf[T any](l *listing, items []T, more bool, position func(*T) []byte) encoded {
	b, written := []byte(`{"data":[`), 0
	for ; written < len(items) && len(b) < maxPage; written++ {
		if written > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, &items[written])
	}
	var p stint.Pagination
	if more || written < len(items) {
		p = l.next(position(&items[written-1]))
	}
	b = appendJSON(append(b, `],"pagination":`...), p)
	return append(b, "}\n"...)
}

func appendJSON(b []byte, v any) []byte {
	return append(b, bytes.TrimSuffix(encode(v), []byte("\n"))...)
}
