package sqlstore

import (
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// mount keeps the versions that a new run mounts from being removed until it
// ends; store.ErrNotFound when one is gone. It locks their volumes, as who
// removes versions does: one comes first and the other sees it. Of a deleted
// volume, or another than has the name now, a checkpoint names the version.
func (s *Store) mount(n store.NewRun) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(n.Volumes)) {
		if s.d.Share != "" {
			steps = append(steps, Step{
				Query: `select l.id from trees l where l.org_id = $1 and l.kind = $2 and l.name = $3 and l.deleted_at is null` + s.d.Share,
				Args:  []any{n.OrgID, string(stint.Volumes), name},
				Row:   func(Row) error { return nil },
			})
		}
		steps = append(steps, stepOne(store.ErrNotFound, `insert into mounts (org_id, version_id, run_id) select $1, $2, $3
			where exists (select 1 from trees t join tree_versions v on v.tree_id = t.id and v.id = $2
					where t.org_id = $1 and t.kind = $4 and t.name = $5 and t.deleted_at is null)
				or exists (select 1 from pins where org_id = $1 and version_id = $2)`,
			n.OrgID, n.Volumes[name], n.ID, string(stint.Volumes), name))
	}
	return steps
}

// unmount lets the versions go that a run mounted.
func unmount(r *store.Run) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(r.Volumes)) {
		steps = append(steps, step(`delete from mounts where org_id = $1 and version_id = $2 and run_id = $3`, r.OrgID, r.Volumes[name], r.ID))
	}
	return steps
}
