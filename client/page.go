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

// list returns an iterator over the items of all pages of a list. The iterator fetches
// the next page after the caller has consumed the previous one. It ends after an error.
func list[T any](ctx context.Context, c *Client, query url.Values, pageSize int, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		o := PageOptions{Limit: pageSize}
		if pageSize <= 0 || pageSize > stint.MaxLimit {
			o.Limit = stint.MaxLimit
		}
		for {
			p, err := page[T](ctx, c, query, &o, path...)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range p.Data {
				if !yield(item, nil) {
					return
				}
			}
			if !p.Pagination.HasMore || p.Pagination.NextCursor == nil {
				return
			}
			o.Cursor = *p.Pagination.NextCursor
		}
	}
}

// PageOptions selects a page of a list. A nil *PageOptions selects the first page.
type PageOptions struct {
	IDPrefix string // only items with IDs that begin with it; not for lists of files
	Limit    int    // items, 1 to 100; 0 is the server's default
	Cursor   string // Pagination.NextCursor of the previous page; empty for the first page
}

// page returns one page of a list.
func page[T any](ctx context.Context, c *Client, query url.Values, o *PageOptions, path ...string) (*stint.Page[T], error) {
	q := url.Values{}
	maps.Copy(q, query)
	if o != nil && o.Limit != 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o != nil {
		set(q, "cursor", o.Cursor)
		set(q, "idPrefix", o.IDPrefix)
	}
	return fetch[stint.Page[T]](ctx, c, call{method: http.MethodGet, path: path, query: q})
}

// idLists contains the path of the list of each kind of ID, by prefix.
var idLists = map[string]string{
	stint.PrefixRun: "runs", stint.PrefixSession: "sessions", stint.PrefixAgent: "agents",
	stint.PrefixArtifact: "artifacts", stint.PrefixVolume: "volumes", stint.PrefixToken: "tokens",
}

// IDs returns up to limit (1 to 100) IDs that begin with the given characters, newest
// first. They begin with the prefix of a run, session, agent, artifact, volume, or token,
// such as "run_"; otherwise, IDs returns none.
func (c *Client) IDs(ctx context.Context, beginning string, limit int) ([]string, error) {
	var ids []string
	for prefix, path := range idLists {
		if !stint.IsIDPrefix(prefix, beginning) {
			continue
		}
		found, err := page[struct{ ID string }](ctx, c, nil, &PageOptions{Limit: limit, IDPrefix: beginning}, path)
		if err != nil {
			return nil, err
		}
		for _, item := range found.Data {
			ids = append(ids, item.ID)
		}
	}
	return ids, nil
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
