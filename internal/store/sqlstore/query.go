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

// selectivePrefix is the length from which on a prefix of IDs matches few rows of all
// organisations: the prefixes of IDs created within 18 minutes (runs) to 10 days.
const selectivePrefix = 10

// of adds the condition that a row belongs to the organisation. For a selective prefix of
// IDs, it prevents the use of an index on the organisation, so that the database reads the
// range of the IDs from the primary key.
func (q *query) of(org string, r store.Range) *query {
	if len(r.IDPrefix) >= selectivePrefix {
		return q.and("org_id || '' = ?", org)
	}
	return q.and("org_id = ?", org)
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
	if r.IDPrefix != "" {
		q.and("id >= ?", r.IDPrefix).and("id < ?", r.IDPrefix+"~") // '~' is greater than the characters of IDs
	}
	q.args = append(q.args, r.Limit)
	q.text.WriteString(" order by created_at desc, " + column + " desc limit $" + strconv.Itoa(len(q.args)))
	return q
}
