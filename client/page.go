package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint"
)

// list walks a paged list. An error ends the walk. A page is fetched only when
// the items before it were consumed.
func list[T any](ctx context.Context, c *Client, query url.Values, pageSize int, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		if pageSize <= 0 || pageSize > stint.MaxLimit {
			pageSize = stint.MaxLimit
		}
		query.Set("limit", strconv.Itoa(pageSize))
		for {
			var page stint.Page[T]
			if err := c.do(ctx, call{method: http.MethodGet, path: path, query: query}, &page); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
			if !page.Pagination.HasMore || page.Pagination.NextCursor == nil {
				return
			}
			query.Set("cursor", *page.Pagination.NextCursor)
		}
	}
}

// PageOptions asks for one page of a list; nil is the first.
type PageOptions struct {
	Limit  int    // items, 1 to 100; 0 leaves it to the server
	Cursor string // Pagination.NextCursor of the page before; empty for the first
}

// page reads one page of a list.
func page[T any](ctx context.Context, c *Client, query url.Values, o *PageOptions, path ...string) (*stint.Page[T], error) {
	if query == nil {
		query = url.Values{}
	}
	if o != nil && o.Limit != 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	if o != nil {
		set(query, "cursor", o.Cursor)
	}
	out := new(stint.Page[T])
	if err := c.do(ctx, call{method: http.MethodGet, path: path, query: query}, out); err != nil {
		return nil, err
	}
	return out, nil
}

func get[T any](ctx context.Context, c *Client, path ...string) (T, error) {
	var out T
	err := c.do(ctx, call{method: http.MethodGet, path: path}, &out)
	return out, err
}

func remove(ctx context.Context, c *Client, path ...string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
}

// set adds a query parameter unless its value is empty.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
