package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// monthsAhead is the number of months, from the current one on, that have
// partitions.
const monthsAhead = 3

// partitioned lists the tables that are partitioned by the month in which the run
// was created.
var partitioned = []string{"journal", "log_entries"}

// EnsurePartitions creates the partitions for monthsAhead months, beginning with the
// month of now. Rows of other months go to the default partition, so a late call loses
// no data.
func (s *Store) EnsurePartitions(ctx context.Context, now time.Time) error {
	first := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, table := range partitioned {
		for n := range monthsAhead {
			if err := s.ensurePartition(ctx, table, first.AddDate(0, n, 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensurePartition creates a partition as a separate table and then attaches it, so
// that writers wait only while it is attached.
func (s *Store) ensurePartition(ctx context.Context, table string, month time.Time) error {
	name := table + month.Format("_2006_01")
	low, high := stint.PrefixRun+stint.ULIDAt(month), stint.PrefixRun+stint.ULIDAt(month.AddDate(0, 1, 0))
	var exists bool
	if err := s.db.QueryRowContext(ctx, `select to_regclass($1) is not null`, name).Scan(&exists); err != nil {
		return fmt.Errorf("finding partition %s: %w", name, err)
	}
	if exists {
		return nil
	}
	err := s.write(ctx, func(ctx context.Context, q sqlstore.Querier) error {
		for _, statement := range []string{
			// Another server may create the same partition concurrently. The lock
			// ends with the transaction.
			fmt.Sprintf(`select pg_advisory_xact_lock(%d)`, int64(migrationLock)),
			fmt.Sprintf(`create table if not exists %s (like %s including all) with (toast_tuple_target = 8160)`, ident(name), ident(table)),
			fmt.Sprintf(`do $$ begin
				if not exists (select 1 from pg_inherits where inhrelid = %[1]s::regclass) then
					alter table %[2]s attach partition %[3]s for values from ('%[4]s') to ('%[5]s');
				end if;
			end $$`, "'"+name+"'", ident(table), ident(name), low, high),
		} {
			if _, err := q.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "23514" { // check_violation
		s.log.WarnContext(ctx, "partition not created: the default partition already has runs of its month", "partition", name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating partition %s: %w", name, err)
	}
	return nil
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }
