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

// list iterates over a paged list and ends after an error. It fetches a page when all
// earlier items have been consumed.
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
			page, err := fetch[stint.Page[T]](ctx, c, call{method: http.MethodGet, path: path, query: query})
			if err != nil {
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

// PageOptions selects a page of a list; nil is the first.
type PageOptions struct {
	Limit  int    // items, 1 to 100; 0 is the server's default
	Cursor string // Pagination.NextCursor of the page before; empty for the first
}

// page returns one page of a list.
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
	return fetch[stint.Page[T]](ctx, c, call{method: http.MethodGet, path: path, query: query})
}

func get[T any](ctx context.Context, c *Client, path ...string) (*T, error) {
	return fetch[T](ctx, c, call{method: http.MethodGet, path: path})
}

func remove(ctx context.Context, c *Client, path ...string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
	return err
}

// set sets a query parameter unless the value is empty.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
