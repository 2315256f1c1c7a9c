package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/store"
)

// DescribeHost records what the worker of a host offers.
func (s *Store) DescribeHost(ctx context.Context, h store.Host) error {
	var columns [3]string
	for i, v := range []any{h.Isolations, h.Frameworks, h.Labels} {
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode host %s: %w", h.Name, err)
		}
		columns[i] = string(raw)
	}
	return s.write(ctx, "describing a host", func(ctx context.Context, q Querier) error {
		_, err := exec(ctx, q, `insert into hosts (host, isolations, frameworks, labels, seen_at) values ($1, $2, $3, $4, `+s.d.Now+`)
			on conflict (host) do update set isolations = excluded.isolations, frameworks = excluded.frameworks, labels = excluded.labels, seen_at = excluded.seen_at`,
			h.Name, columns[0], columns[1], columns[2])
		return err
	})
}

// Hosts returns all hosts.
func (s *Store) Hosts(ctx context.Context) ([]store.Host, error) {
	hosts, err := all(ctx, s.db.Read, scanHost, `select host, isolations, frameworks, labels, `+s.d.Now+` - seen_at from hosts order by host`)
	return hosts, s.Wrap("listing hosts", err)
}

func scanHost(r Row) (h store.Host, err error) {
	var columns [3]string
	var unseen int64
	if err := r.Scan(&h.Name, &columns[0], &columns[1], &columns[2], &unseen); err != nil {
		return store.Host{}, err
	}
	h.Unseen = max(0, time.Duration(unseen)*time.Microsecond)
	for i, to := range []any{&h.Isolations, &h.Frameworks, &h.Labels} {
		if err := json.Unmarshal([]byte(columns[i]), to); err != nil {
			return store.Host{}, fmt.Errorf("decode host %s: %w", h.Name, err)
		}
	}
	return h, nil
}
