package sqlstore

import (
	"context"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/store"
)

// maxCount limits the rows that are counted, which are read from an index.
var maxCount = strconv.Itoa(store.MaxCount)

// Load returns the numbers of open runs and of workers. The conditions on worker_id and
// created_at, which every run meets, make SQLite use the partial indexes of open runs
// instead of an index of all runs.
func (s *Store) Load(ctx context.Context) (store.Load, error) {
	return get(ctx, s, "counting open runs", func(r Row) (l store.Load, err error) {
		var age int64
		err = r.Scan(&l.Running, &l.Pending, &age, &l.Workers)
		l.Oldest = time.Duration(max(0, age)) * time.Microsecond
		return l, err
	}, `select
		(select count(*) from (select 1 from runs where status = 'running' and worker_id >= '' limit `+maxCount+`) a),
		(select count(*) from (select 1 from runs where status = 'pending' and created_at >= 0 limit `+maxCount+`) b),
		coalesce((select `+s.d.Now+` - min(created_at) from runs where status = 'pending'), 0),
		(select count(*) from workers where lease_until > `+s.d.Now+`)`)
}

// OrgLoads returns the numbers of open runs of the oldest organisations.
func (s *Store) OrgLoads(ctx context.Context, limit int) ([]store.OrgLoad, error) {
	return list(ctx, s, "counting open runs of organisations", func(r Row) (l store.OrgLoad, err error) {
		var age int64
		err = r.Scan(&l.OrgID, &l.OrgName, &l.Running, &l.Pending, &age)
		l.Oldest = time.Duration(max(0, age)) * time.Microsecond
		return l, err
	}, `select o.id, o.name,
		(select count(*) from (select 1 from runs where org_id = o.id and status = 'running' limit `+maxCount+`) a),
		(select count(*) from (select 1 from runs where org_id = o.id and status = 'pending' limit `+maxCount+`) b),
		coalesce((select `+s.d.Now+` - min(created_at) from runs where org_id = o.id and status = 'pending'), 0)
		from (select id, name, created_at from orgs order by created_at, id limit $1) o order by o.created_at, o.id`, limit)
}

// FirstOrg returns the ID of the oldest organisation.
func (s *Store) FirstOrg(ctx context.Context) (string, error) {
	return get(ctx, s, "reading the first organisation", value[string], `select id from orgs order by created_at, id limit 1`)
}
