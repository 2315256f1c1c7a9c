package sqlstore

import (
	"context"
	"math"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Conditions on a version v (a row of tree_versions) of a file set t (a row of trees).
const (
	isHead    = `coalesce(v.number = t.head, false)`
	isPinned  = `exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id)`
	isMounted = `exists (select 1 from mounts m where m.org_id = t.org_id and m.version_id = v.id)`
	isKept    = `exists (select 1 from kept k where k.org_id = t.org_id and k.version_id = v.id)`
)

// DeleteVersion removes a version that is not in use.
func (s *Store) DeleteVersion(ctx context.Context, org, set, id string) error {
	return s.write(ctx, "deleting a version", func(ctx context.Context, q Querier) error {
		t, err := s.lockFileSet(ctx, q, `l.id = $1 and l.org_id = $2`, set, org)
		if err != nil {
			return err
		}
		use, err := one(ctx, q, value[store.Use], `select case when `+isHead+` then 'head' when `+isPinned+` then 'checkpoint' when `+isMounted+` then 'run' when `+isKept+` then 'kept' else '' end
			from tree_versions v join trees t on t.id = v.tree_id where v.tree_id = $1 and v.id = $2`, t.id, id)
		switch {
		case err != nil:
			return err
		case use != "":
			return store.InUseError{Use: use}
		}
		return run(ctx, q, step(recordPruned, t.id, versionNumber(id)), step(removePruned, t.id, versionNumber(id)))
	})
}

// KeepVersion excludes a version from PruneVersions, or includes it again.
func (s *Store) KeepVersion(ctx context.Context, org, set, id string, keep bool, at stint.Time) error {
	return s.write(ctx, "keeping a version", func(ctx context.Context, q Querier) error {
		t, err := s.lockFileSet(ctx, q, `l.id = $1 and l.org_id = $2`, set, org)
		if err != nil {
			return err
		}
		if _, err := one(ctx, q, value[string], `select id from tree_versions where tree_id = $1 and id = $2`, t.id, id); err != nil {
			return err
		}
		if keep {
			_, err = exec(ctx, q, `insert into kept (org_id, version_id, created_at) values ($1, $2, $3) on conflict do nothing`, org, id, micros(at))
		} else {
			_, err = exec(ctx, q, `delete from kept where org_id = $1 and version_id = $2`, org, id)
		}
		return err
	})
}

// pruneBatch is the greatest number of versions that one transaction removes.
const pruneBatch = 100

// versionKey is the primary key of a version.
type versionKey struct {
	set    string
	number int64
}

func scanVersionKey(r Row) (k versionKey, err error) { return k, r.Scan(&k.set, &k.number) }

// PruneVersions removes the versions that the rule does not retain. It reads candidates
// without locks and removes them in batches; the transaction of each batch checks the
// rule again.
func (s *Store) PruneVersions(ctx context.Context, r store.Retention) (int64, error) {
	const doing = "removing old versions"
	list, err := all(ctx, s.db.Read, scanVersionKey, `select v.tree_id, v.number from trees t join tree_versions v on v.tree_id = t.id
		where t.deleted_at is not null and not `+isPinned+` and not `+isMounted+` order by v.tree_id, v.number`)
	if err == nil && (r.Last > 0 || !r.Since.IsZero()) {
		var old []versionKey
		old, err = all(ctx, s.db.Read, scanVersionKey, `select v.tree_id, v.number
			from (select tree_id, number, id, created_at, row_number() over (partition by tree_id order by number desc) as rank from tree_versions) v
			join trees t on t.id = v.tree_id
			where v.rank > $1 and v.created_at < $2 and t.deleted_at is null
				and not `+isHead+` and not `+isPinned+` and not `+isMounted+` and not `+isKept+` order by v.tree_id, v.number`,
			r.Last, pruneBefore(r))
		list = append(list, old...)
	}
	if err != nil {
		return 0, s.Wrap(doing, err)
	}
	var removed int64
	for len(list) > 0 {
		n := 1
		for n < min(len(list), pruneBatch) && list[n].set == list[0].set {
			n++
		}
		count, err := change(ctx, s, doing, func(ctx context.Context, q Querier) (int64, error) { return s.prune(ctx, q, r, list[:n]) })
		if removed += count; err != nil {
			return removed, err
		}
		list = list[n:]
	}
	return removed, s.removeFileSets(ctx)
}

// prune removes the versions in list, which belong to one file set, if the rule still
// does not retain them, and returns their number. It locks the file set, so that no run
// can mount these versions meanwhile.
func (s *Store) prune(ctx context.Context, q Querier, r store.Retention, list []versionKey) (removed int64, err error) {
	steps := []Step{lockRows(s.d.Lock, `select l.id from trees l where l.id = $1`, list[0].set)}
	for _, v := range list {
		record := step(recordPruned+` and exists (
			select 1 from trees t where t.id = v.tree_id and not `+isPinned+` and not `+isMounted+` and (t.deleted_at is not null
				or v.created_at < $3 and not `+isHead+` and not `+isKept+` and exists (
					select 1 from tree_versions n where n.tree_id = v.tree_id and n.number >= v.number limit 1 offset $4)))`,
			v.set, v.number, pruneBefore(r), r.Last)
		record.Done = func(n int64) error { removed += n; return nil }
		steps = append(steps, record, step(removePruned, v.set, v.number))
	}
	return removed, run(ctx, q, steps...)
}

// A version is removed in two steps. The first adds its place in the history to
// pruned_versions; a condition on the version v can be appended. The second removes the
// version if the first has.
const (
	recordPruned = `insert into pruned_versions (tree_id, number, id, parent_id, line, digest)
		select v.tree_id, v.number, v.id, v.parent_id, v.line, v.digest from tree_versions v where v.tree_id = $1 and v.number = $2`
	removePruned = `delete from tree_versions as v where v.tree_id = $1 and v.number = $2
		and exists (select 1 from pruned_versions p where p.tree_id = v.tree_id and p.number = v.number)`
)

// removeFileSets removes deleted file sets without versions. A deleted file set cannot
// get new versions.
func (s *Store) removeFileSets(ctx context.Context) error {
	empty, err := all(ctx, s.db.Read, value[string], `select t.id from trees t
		where t.deleted_at is not null and not exists (select 1 from tree_versions v where v.tree_id = t.id)`)
	if err != nil {
		return s.Wrap("finding deleted file sets", err)
	}
	for _, table := range []string{"pruned_versions", "tree_lines"} {
		err := s.eachKey(ctx, "removing the history of deleted file sets", empty, func(id string) Step {
			return step(`delete from `+table+` where tree_id = $1`, id)
		})
		if err != nil {
			return err
		}
	}
	return s.eachKey(ctx, "removing deleted file sets", empty, func(id string) Step {
		return step(`delete from trees where id = $1 and deleted_at is not null`, id)
	})
}

// pruneBefore returns the time before which a version is old, in microseconds. If Since
// is zero, every version is old; if Last is 0 as well, no version is old.
func pruneBefore(r store.Retention) int64 {
	switch {
	case !r.Since.IsZero():
		return micros(r.Since)
	case r.Last > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

// StorageUsage returns what an organisation stores.
func (s *Store) StorageUsage(ctx context.Context, org string) (store.StorageUsage, error) {
	return get(ctx, s, "counting stored versions", func(r Row) (u store.StorageUsage, err error) {
		return u, r.Scan(&u.Artifacts, &u.Volumes, &u.Versions, &u.Bytes, &u.Checkpoints)
	}, `select
			(select count(*) from trees where org_id = $1 and kind = 'artifact' and deleted_at is null),
			(select count(*) from trees where org_id = $1 and kind = 'volume' and deleted_at is null),
			count(v.id), cast(coalesce(sum(v.size), 0) as bigint),
			(select count(*) from checkpoints where org_id = $1)
		from tree_versions v join trees t on t.id = v.tree_id where t.org_id = $1 and t.deleted_at is null`, org)
}
