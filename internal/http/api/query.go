package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/paging"
)

// query contains the query parameters of a request. Its methods record the first
// error in err. The handler checks err once, after it has read all parameters.
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

// text returns a parameter, and reports whether the query contains it.
func (q *query) text(name string) (value string, ok bool) {
	all := q.values[name]
	if len(all) > 1 {
		q.fail(stint.InvalidParam(name, "'%s' occurs more than once.", name))
	}
	if len(all) == 0 {
		return "", false
	}
	return all[0], true
}

// choice returns a parameter, which must be one of words, or defaultValue if the query
// does not contain it.
func (q *query) choice(name, defaultValue string, words ...string) string {
	value, ok := q.text(name)
	if !ok {
		return defaultValue
	}
	if slices.Contains(words, value) {
		return value
	}
	q.fail(stint.InvalidParam(name, "'%s' must be one of %s.", name, strings.Join(words, ", ")))
	return defaultValue
}

// statuses returns the statuses in the parameter 'status', which can occur several times
// and contain several statuses that are separated by commas. The result has the order of
// stint.Statuses and no duplicates. It replaces the values of the parameter, so that
// equal filters have equal cursors.
func (q *query) statuses() []stint.Status {
	values := q.values["status"]
	if len(values) == 0 {
		return nil
	}
	given := strings.Split(strings.Join(values, ","), ",")
	for _, name := range given {
		if !stint.Status(name).Valid() {
			q.fail(stint.InvalidParam("status", "'%s' is not a status. 'status' must be one or several of %s.", stint.Excerpt(name, 64), joined(stint.Statuses, ", ")))
		}
	}
	all := slices.DeleteFunc(slices.Clone(stint.Statuses), func(s stint.Status) bool { return !slices.Contains(given, string(s)) })
	q.values["status"] = []string{joined(all, ",")}
	return all
}

func joined(statuses []stint.Status, separator string) string {
	names := make([]string, len(statuses))
	for i, s := range statuses {
		names[i] = string(s)
	}
	return strings.Join(names, separator)
}

// time returns a parameter that is a time, or nil if the query does not contain it. It
// accepts an unescaped '+' before a zone offset, which is decoded as a space.
func (q *query) time(name string) *stint.Time {
	value, ok := q.text(name)
	if !ok {
		return nil
	}
	t, err := stint.ParseTime(strings.ReplaceAll(value, " ", "+"))
	if err != nil {
		q.fail(stint.InvalidParam(name, "'%s' must be a time such as 2026-01-02T15:04:05.000Z.", name))
		return nil
	}
	return &t
}

// name returns the parameter 'name', which filters a list, or "" if the query does not
// contain it.
func (q *query) name() string {
	name, ok := q.text("name")
	if ok && name == "" {
		q.fail(stint.InvalidParam("name", "'name' cannot be empty."))
	}
	return name
}

// id returns a parameter that is an ID and filters a list, or "" if the query does not
// contain it. For a malformed ID it returns an ID that does not exist, so that the
// list is empty.
func (q *query) id(name, prefix string) string {
	value, ok := q.text(name)
	if ok && !stint.IsID(prefix, value) {
		return prefix + "none"
	}
	return value
}

// idPrefix returns the parameter 'idPrefix', the beginning of the IDs of a list, or "" if
// the query does not contain it. All IDs of the list begin with prefix.
func (q *query) idPrefix(prefix string) string {
	value, ok := q.text("idPrefix")
	if ok && !stint.IsIDPrefix(prefix, value) {
		q.fail(stint.InvalidParam("idPrefix", "'idPrefix' must be the beginning of an ID, such as '%s01k2'. IDs have lower-case letters.", prefix))
	}
	return value
}

// limit returns the maximum number of items on a page.
func (q *query) limit() int { return q.limitFrom(stint.DefaultLimit, stint.MaxLimit) }

// limitFrom returns the parameter 'limit', at most most, or defaultValue if the query does
// not contain it.
func (q *query) limitFrom(defaultValue, most int) int {
	value, ok := q.text("limit")
	if !ok {
		return defaultValue
	}
	n, err := paging.ParseLimit(value, most)
	if err != nil {
		q.fail(err)
	}
	return n
}
