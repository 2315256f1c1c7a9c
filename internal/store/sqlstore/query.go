package sqlstore

import (
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/store"
)

// query builds a select from conditions. Values are parameters, so the number of
// different texts is the number of combinations of conditions.
type query struct {
	text strings.Builder
	args []any
}

// newQuery returns a select without conditions.
func newQuery(selectFrom string) *query {
	q := new(query)
	q.text.WriteString(selectFrom)
	q.text.WriteString(" where true")
	return q
}

// and adds a condition; each ? in it stands for the next value.
func (q *query) and(condition string, values ...any) *query {
	q.text.WriteString(" and ")
	for _, v := range values {
		before, after, _ := strings.Cut(condition, "?")
		q.args = append(q.args, v)
		q.text.WriteString(before)
		q.text.WriteString("$" + strconv.Itoa(len(q.args)))
		condition = after
	}
	q.text.WriteString(condition)
	return q
}

// page limits the query to a page of a list that is sorted by (created_at, id),
// newest first.
func (q *query) page(r store.Range) *query {
	return q.pageBy("id", r.After.ID, r)
}

// pageBy is like page for a list that is sorted by created_at and the given column,
// which has the value after in the last item of the previous page.
func (q *query) pageBy(column string, after any, r store.Range) *query {
	if r.After.ID != "" {
		q.and("(created_at, "+column+") < (?, ?)", micros(r.After.At), after)
	}
	q.args = append(q.args, r.Limit)
	q.text.WriteString(" order by created_at desc, " + column + " desc limit $" + strconv.Itoa(len(q.args)))
	return q
}
