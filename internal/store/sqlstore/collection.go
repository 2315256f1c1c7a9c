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

// checkEpoch returns store.ErrEpoch if the current collection epoch differs from
// epoch. It locks the epoch, so that no collection begins before the transaction
// ends.
func (s *Store) checkEpoch(ctx context.Context, q Querier, org string, epoch int64) error {
	var current int64 // 0 if no collection has begun yet
	var found bool
	if err := run(ctx, q, step(s.d.ShareEpoch, org), into(&current, &found, value[int64], `select epoch from collections where org_id = $1`, org)); err != nil {
		return err
	}
	if current != epoch {
		return store.ErrEpoch
	}
	return nil
}

// Orgs returns the IDs of all organisations.
func (s *Store) Orgs(ctx context.Context) ([]string, error) {
	return list(ctx, s, "listing organisations", value[string], `select id from orgs order by id`)
}

// LeaseCollection acquires, extends, or releases the collection lease.
func (s *Store) LeaseCollection(ctx context.Context, org, holder string, d time.Duration) (bool, error) {
	return change(ctx, s, "leasing the collection", func(ctx context.Context, q Querier) (bool, error) {
		n, err := exec(ctx, q, `insert into collections (org_id, epoch, holder, until) values ($1, 0, $2, `+s.d.Now+` + $3)
			on conflict (org_id) do update set holder = excluded.holder, until = excluded.until
			where collections.until <= `+s.d.Now+` or collections.holder = excluded.holder`, org, holder, d.Microseconds())
		return n == 1, err
	})
}

// BeginCollection begins a new epoch.
func (s *Store) BeginCollection(ctx context.Context, org string) (int64, error) {
	return change(ctx, s, "beginning a collection", func(ctx context.Context, q Querier) (int64, error) {
		if err := run(ctx, q, step(s.d.LockEpoch, org)); err != nil {
			return 0, err
		}
		return one(ctx, q, value[int64], `insert into collections (org_id, epoch) values ($1, 1)
			on conflict (org_id) do update set epoch = collections.epoch + 1 returning epoch`, org)
	})
}

// liveDigests selects every referenced digest except those in the plans of runs.
const liveDigests = `
	select distinct v.digest from tree_versions v join trees t on t.id = v.tree_id
		where t.org_id = $1 and (t.deleted_at is null or exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id))
	union all select home_digest from checkpoints where org_id = $1
	union all select workspace_digest from checkpoints where org_id = $1`

// livePlans selects the plans of unfinished runs, and of cancelled runs whose worker
// may still save their state, and the states that attempts of these runs left. The store
// does not parse them: it treats every text in them that looks like a digest as one. This
// can keep a snapshot that is not referenced, but cannot miss one that is.
const livePlans = `
	select coalesce(s.spec, '') from runs r join run_specs s on s.run_id = r.id
		where r.org_id = $1 and r.status in ('pending', 'running')
	union all select coalesce(s.spec, '') from leaving l join runs r on r.id = l.run_id join run_specs s on s.run_id = r.id
		where r.org_id = $1
	union all select a.state from attempts a join runs r on r.id = a.run_id
		where r.org_id = $1 and a.state is not null and (r.status in ('pending', 'running') or exists (select 1 from leaving l where l.run_id = r.id))`

var digest = regexp.MustCompile(`[0-9a-f]{64}`)

// LiveDigests returns the digests of all referenced snapshots.
func (s *Store) LiveDigests(ctx context.Context, org string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// The plans are read first: if a run ends between the two queries, the
		// second one returns its checkpoint.
		for _, query := range []string{livePlans, liveDigests} {
			for text, err := range rows(ctx, s.db.Read, value[string], query, org) {
				if err != nil {
					yield("", s.Wrap("finding referenced snapshots", err))
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

const namedSnapshots = `
	select v.digest, t.kind || ' ' || t.name || '@' || v.id from tree_versions v join trees t on t.id = v.tree_id
		where t.org_id = $1 and (t.deleted_at is null or exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id))
	union all select home_digest, 'home of ' || id from checkpoints where org_id = $1 and home_digest <> ''
	union all select workspace_digest, 'workspace of ' || id from checkpoints where org_id = $1 and workspace_digest <> ''
	order by 2`

// NamedSnapshots returns the snapshots of versions and checkpoints, each with a
// name for messages.
func (s *Store) NamedSnapshots(ctx context.Context, org string) iter.Seq2[store.NamedSnapshot, error] {
	return func(yield func(store.NamedSnapshot, error) bool) {
		scan := func(r Row) (n store.NamedSnapshot, err error) { return n, r.Scan(&n.Digest, &n.Name) }
		for n, err := range rows(ctx, s.db.Read, scan, namedSnapshots, org) {
			if !yield(n, s.Wrap("listing snapshots", err)) || err != nil {
				return
			}
		}
	}
}

// MarkedObjects returns the epoch and the marked objects. It reads the epoch first:
// if a collection begins before the list is read, the returned epoch is outdated,
// and a commit with it fails with store.ErrEpoch.
func (s *Store) MarkedObjects(ctx context.Context, org string) (int64, []store.MarkedObject, error) {
	epoch, err := one(ctx, s.db.Read, value[int64], `select epoch from collections where org_id = $1`, org)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil, nil // no collection has begun yet
	}
	if err != nil {
		return 0, nil, s.Wrap("reading the collection epoch", err)
	}
	list, err := all(ctx, s.db.Read, func(r Row) (c store.MarkedObject, err error) {
		var since int64
		err = r.Scan(&c.Key, &c.Epoch, &since)
		c.Since = time.UnixMicro(since).UTC()
		return c, err
	}, `select key, epoch, since from condemned where org_id = $1 order by key`, org)
	return epoch, list, s.Wrap("reading marked objects", err)
}

// keyBatch is the maximum number of keys that one transaction writes.
const keyBatch = 1000

// MarkObjects marks unreferenced objects.
func (s *Store) MarkObjects(ctx context.Context, org string, epoch int64, keys []string, at stint.Time) error {
	return s.eachKey(ctx, "marking objects", keys, func(key string) Step {
		return step(`insert into condemned (org_id, key, epoch, since) values ($1, $2, $3, $4) on conflict do nothing`, org, key, epoch, micros(at))
	})
}

// UnmarkObjects removes the marks of objects.
func (s *Store) UnmarkObjects(ctx context.Context, org string, keys []string) error {
	return s.eachKey(ctx, "unmarking objects", keys, func(key string) Step {
		return step(`delete from condemned where org_id = $1 and key = $2`, org, key)
	})
}

func (s *Store) eachKey(ctx context.Context, doing string, keys []string, change func(key string) Step) error {
	for len(keys) > 0 {
		batch := keys[:min(len(keys), keyBatch)]
		keys = keys[len(batch):]
		err := s.write(ctx, doing, func(ctx context.Context, q Querier) error {
			steps := make([]Step, len(batch))
			for i, key := range batch {
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
