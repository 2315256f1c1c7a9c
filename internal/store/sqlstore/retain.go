package sqlstore

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Conditions on a version v of a tree t.
const (
	isHead   = `coalesce(v.number = t.head, false)`
	isPinned = `exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id)`
	isKept   = `exists (select 1 from kept k where k.org_id = t.org_id and k.version_id = v.id)`
)

// DeleteVersion removes a version that nothing needs.
func (s *Store) DeleteVersion(ctx context.Context, org, tree, id string) error {
	return s.write(ctx, "deleting a version", func(ctx context.Context, q Querier) error {
		t, err := s.lockTree(ctx, q, `l.id = $1 and l.org_id = $2`, tree, org)
		if err != nil {
			return err
		}
		needed, err := one(ctx, q, value[int], `select case when `+isHead+` or `+isPinned+` or `+isKept+` then 1 else 0 end
			from tree_versions v join trees t on t.id = v.tree_id where v.tree_id = $1 and v.id = $2`, t.id, id)
		switch {
		case err != nil:
			return err
		case needed == 1:
			return store.ErrInUse
		}
		return execOne(ctx, q, store.ErrNotFound, `delete from tree_versions where tree_id = $1 and id = $2`, t.id, id)
	})
}

// KeepVersion asks that rules leave a version alone, or takes that back.
func (s *Store) KeepVersion(ctx context.Context, org, tree, id string, keep bool, at stint.Time) error {
	return s.write(ctx, "keeping a version", func(ctx context.Context, q Querier) error {
		t, err := s.lockTree(ctx, q, `l.id = $1 and l.org_id = $2`, tree, org)
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

// PruneVersions removes what the rule lets go.
func (s *Store) PruneVersions(ctx context.Context, r store.Retention) (int64, error) {
	return change(ctx, s, "removing old versions", func(ctx context.Context, q Querier) (int64, error) {
		n, err := exec(ctx, q, `delete from tree_versions where id in (select v.id from tree_versions v join trees t on t.id = v.tree_id
			where t.deleted_at is not null and not `+isPinned+`)`)
		if err != nil {
			return 0, err
		}
		if r.Last > 0 || !r.Since.IsZero() {
			old, err := exec(ctx, q, `delete from tree_versions where id in (
				select v.id from (select tree_id, number, id, created_at, row_number() over (partition by tree_id order by number desc) as place from tree_versions) v
				join trees t on t.id = v.tree_id
				where v.place > $1 and v.created_at < $2 and t.deleted_at is null and not `+isHead+` and not `+isPinned+` and not `+isKept+`)`,
				r.Last, pruneBefore(r))
			if err != nil {
				return 0, err
			}
			n += old
		}
		_, err = exec(ctx, q, `delete from trees where deleted_at is not null and not exists (select 1 from tree_versions v where v.tree_id = trees.id)`)
		return n, err
	})
}

// pruneBefore is the time before which a version is old; without a rule of age
// every version is.
func pruneBefore(r store.Retention) int64 {
	if r.Since.IsZero() {
		return 1<<63 - 1
	}
	return micros(r.Since)
}

// TreeUsage counts what an organisation keeps.
func (s *Store) TreeUsage(ctx context.Context, org string) (store.TreeUsage, error) {
	u, err := one(ctx, s.db.Read, func(r row) (u store.TreeUsage, err error) {
		return u, r.Scan(&u.Artifacts, &u.Volumes, &u.Versions, &u.Bytes, &u.Checkpoints)
	}, `select
			(select count(*) from trees where org_id = $1 and kind = 'artifact' and deleted_at is null),
			(select count(*) from trees where org_id = $1 and kind = 'volume' and deleted_at is null),
			count(v.id), cast(coalesce(sum(v.size), 0) as bigint),
			(select count(*) from checkpoints where org_id = $1)
		from tree_versions v join trees t on t.id = v.tree_id where t.org_id = $1 and t.deleted_at is null`, org)
	return u, s.Wrap("counting what is kept", err)
}
