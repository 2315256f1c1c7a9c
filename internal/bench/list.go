package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/stint-dev/stint"
)

// shortList is how many runs the long list is compared with.
const shortList = 1000

// benchList reads the first page and one from the middle of a list, while the
// organisation has few runs and again when it has very many.
func (l *lab) benchList(ctx context.Context) (err error) {
	dir, err := l.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var template string
	err = l.serving(ctx, dir, func(s *service) error {
		if err := s.agent(ctx, "speaker"); err != nil {
			return err
		}
		template, err = s.finished(ctx, "speaker", "echo hello")
		return err
	})
	if err != nil {
		return err
	}
	short, err := l.pages(ctx, dir, template, 0, shortList)
	if err != nil {
		return err
	}
	long, err := l.pages(ctx, dir, template, shortList, l.a.Rows)
	if err != nil {
		return err
	}
	for i, what := range []string{"first page", "page in the middle"} {
		row := Row{What: fmt.Sprintf("%s of a list of %s runs", what, number(float64(l.a.Rows))), Measured: long.at[i]}
		row = row.compare(fmt.Sprintf("of %s runs", number(shortList)), short.at[i], long.at[i].P50Ms, short.at[i].P50Ms)
		row.Goals = []Goal{atMost("", row.Ratio, 1.5, "×")}
		if i == 0 {
			row.Note = fmt.Sprintf("%s rows were added in %.1f s.", number(float64(l.a.Rows-shortList)), long.seeding.Seconds())
		}
		l.add(row)
	}
	return nil
}

// pages is how long the two pages took, and adding the runs before.
type pages struct {
	at      [2]Measure
	seeding time.Duration
}

// pages fills the list up to so many runs and reads it.
func (l *lab) pages(ctx context.Context, dir, template string, from, to int) (p pages, err error) {
	if p.seeding, err = timed(func() error { return l.seed(ctx, dir, template, from, to) }); err != nil {
		return p, fmt.Errorf("add runs: %w", err)
	}
	err = l.serving(ctx, dir, func(s *service) error {
		c, err := dial(ctx, s.address)
		if err != nil {
			return err
		}
		defer c.Close()
		cursor, err := c.walk(ctx, s.token, to/2)
		if err != nil {
			return err
		}
		for i, query := range []string{"?limit=20", "?limit=20&cursor=" + cursor} {
			if p.at[i], err = c.repeat(request("GET", "/v1/runs"+query, s.token, ""), l.a.Samples); err != nil {
				return err
			}
		}
		return nil
	}, "--capacity", "1")
	return p, err
}

// walk goes through the list until so many runs lie behind.
func (c *conn) walk(ctx context.Context, token string, behind int) (cursor string, err error) {
	const limit = 100
	for at := 0; at < behind && ctx.Err() == nil; at += limit {
		query := fmt.Sprintf("/v1/runs?limit=%d", limit)
		if cursor != "" {
			query += "&cursor=" + cursor
		}
		body, err := c.want(http.StatusOK, request("GET", query, token, ""))
		if err != nil {
			return "", err
		}
		var page stint.Page[json.RawMessage]
		if err := json.Unmarshal(body, &page); err != nil {
			return "", err
		}
		if page.Pagination.NextCursor == nil {
			return "", fmt.Errorf("the list ends after %d runs", at+len(page.Data))
		}
		cursor = *page.Pagination.NextCursor
	}
	return cursor, ctx.Err()
}

// repeat sends a request n times, after some that are not counted.
func (c *conn) repeat(get []byte, n int) (Measure, error) {
	var took []time.Duration
	for i := range n + warmUps {
		d, err := timed(func() error {
			_, err := c.want(http.StatusOK, get)
			return err
		})
		if err != nil {
			return Measure{}, err
		}
		if i >= warmUps {
			took = append(took, d)
		}
	}
	return latency(SampleOf(took)), nil
}
