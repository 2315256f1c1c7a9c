package sqlstore

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// nameable checks that trees stored under an epoch of collection may still be
// named, and that no collection begins before the transaction has ended.
func (s *Store) nameable(ctx context.Context, q Querier, org string, epoch int64) error {
	var steps []Step
	if s.d.ShareEpoch != "" {
		steps = append(steps, step(s.d.ShareEpoch, org))
	}
	now := int64(0)
	read := step(`select epoch from collections where org_id = $1`, org)
	read.Row = func(r Row) error { return r.Scan(&now) }
	if err := run(ctx, q, append(steps, read)...); err != nil {
		return err
	}
	if now != epoch {
		return store.ErrEpoch
	}
	return nil
}

// Orgs lists the identifiers of all organisations.
func (s *Store) Orgs(ctx context.Context) ([]string, error) {
	orgs, err := all(ctx, s.db.Read, value[string], `select id from orgs order by id`)
	return orgs, s.Wrap("listing organisations", err)
}

// LeaseCollection takes, extends or gives back the turn of one who collects.
func (s *Store) LeaseCollection(ctx context.Context, org, holder string, d time.Duration) (bool, error) {
	return change(ctx, s, "taking the turn to collect", func(ctx context.Context, q Querier) (bool, error) {
		n, err := exec(ctx, q, `insert into collections (org_id, epoch, holder, until) values ($1, 0, $2, `+s.d.Now+` + $3)
			on conflict (org_id) do update set holder = excluded.holder, until = excluded.until
			where collections.until <= `+s.d.Now+` or collections.holder = excluded.holder`, org, holder, d.Microseconds())
		return n == 1, err
	})
}

// BeginCollection begins a new epoch.
func (s *Store) BeginCollection(ctx context.Context, org string) (int64, error) {
	return change(ctx, s, "beginning a collection", func(ctx context.Context, q Querier) (int64, error) {
		if s.d.LockEpoch != "" {
			if err := run(ctx, q, step(s.d.LockEpoch, org)); err != nil {
				return 0, err
			}
		}
		return one(ctx, q, value[int64], `insert into collections (org_id, epoch) values ($1, 1)
			on conflict (org_id) do update set epoch = collections.epoch + 1 returning epoch`, org)
	})
}

// live finds every digest but those in the plans of runs.
const live = `
	select distinct v.digest from tree_versions v join trees t on t.id = v.tree_id
		where t.org_id = $1 and (t.deleted_at is null or exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id))
	union all select home_digest from checkpoints where org_id = $1
	union all select workspace_digest from checkpoints where org_id = $1`

// A plan is not for the store to understand; what looks like a digest in it is
// taken for one, which keeps rather too much than too little.
const (
	livePlans = `select coalesce(s.spec, '') from runs r join run_specs s on s.run_id = r.id
		where r.org_id = $1 and r.status in ('pending', 'running')
	union all select coalesce(s.spec, '') from leaving l join runs r on r.id = l.run_id join run_specs s on s.run_id = r.id
		where r.org_id = $1`
)

var digest = regexp.MustCompile(`[0-9a-f]{64}`)

// Live gives the digests of the trees that something names.
func (s *Store) LiveDigests(ctx context.Context, org string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// Plans first: a run that ends in between has left a checkpoint by then.
		for _, query := range []string{livePlans, live} {
			for text, err := range each(ctx, s, value[string], query, org) {
				if err != nil {
					yield("", s.Wrap("finding what is named", err))
					return
				}
				for _, d := range digest.FindAllString(text, -1) {
					if !yield(d, nil) {
						return
					}
				}
			}
		}
	}
}

const named = `
	select v.digest, t.kind || ' ' || t.name || '@' || v.id from tree_versions v join trees t on t.id = v.tree_id
		where t.org_id = $1 and (t.deleted_at is null or exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id))
	union all select home_digest, 'home of ' || id from checkpoints where org_id = $1 and home_digest <> ''
	union all select workspace_digest, 'workspace of ' || id from checkpoints where org_id = $1 and workspace_digest <> ''
	order by 2`

// Named gives the named trees with their names.
func (s *Store) NamedSnapshots(ctx context.Context, org string) iter.Seq2[store.NamedSnapshot, error] {
	return func(yield func(store.NamedSnapshot, error) bool) {
		scan := func(r row) (n store.NamedSnapshot, err error) { return n, r.Scan(&n.Digest, &n.Name) }
		for n, err := range each(ctx, s, scan, named, org) {
			if !yield(n, s.Wrap("listing what is named", err)) || err != nil {
				return
			}
		}
	}
}

// each gives the rows of a query one by one.
func each[T any](ctx context.Context, s *Store, scan func(row) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rows, err := queryRows(ctx, s.db.Read, query, args...)
		if err != nil {
			yield(none, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			v, err := scan(rows)
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, err)
		}
	}
}

// Condemned reads the epoch and what is condemned. The epoch is read first: a
// list that is newer than its epoch only says more.
func (s *Store) MarkedObjects(ctx context.Context, org string) (int64, []store.MarkedObject, error) {
	epoch, err := one(ctx, s.db.Read, value[int64], `select epoch from collections where org_id = $1`, org)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil, nil // nothing was ever condemned
	}
	if err != nil {
		return 0, nil, s.Wrap("reading the epoch of collection", err)
	}
	list, err := all(ctx, s.db.Read, func(r row) (c store.MarkedObject, err error) {
		var since int64
		err = r.Scan(&c.Key, &c.Epoch, &since)
		c.Since = time.UnixMicro(since).UTC()
		return c, err
	}, `select key, epoch, since from condemned where org_id = $1 order by key`, org)
	return epoch, list, s.Wrap("reading what is condemned", err)
}

// keysAtOnce bounds the keys that one transaction writes.
const keysAtOnce = 1000

// Condemn notes keys of the storage that nothing names.
func (s *Store) MarkObjects(ctx context.Context, org string, epoch int64, keys []string, at stint.Time) error {
	return s.eachKey(ctx, "condemning objects", keys, func(key string) Step {
		return step(`insert into condemned (org_id, key, epoch, since) values ($1, $2, $3, $4) on conflict do nothing`, org, key, epoch, micros(at))
	})
}

// Pardon forgets condemned keys.
func (s *Store) UnmarkObjects(ctx context.Context, org string, keys []string) error {
	return s.eachKey(ctx, "pardoning objects", keys, func(key string) Step {
		return step(`delete from condemned where org_id = $1 and key = $2`, org, key)
	})
}

func (s *Store) eachKey(ctx context.Context, doing string, keys []string, change func(key string) Step) error {
	for len(keys) > 0 {
		some := keys[:min(len(keys), keysAtOnce)]
		keys = keys[len(some):]
		err := s.write(ctx, doing, func(ctx context.Context, q Querier) error {
			steps := make([]Step, len(some))
			for i, key := range some {
				steps[i] = change(key)
			}
			return run(ctx, q, steps...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
