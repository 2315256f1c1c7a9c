package bench

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"; the server brings "sqlite"
)

// dialect is how a database counts and writes a number with 26 digits, which
// is the form of an identifier's end.
type dialect struct {
	numbers string // rows g with the column i, from $1 to $2
	digits  string // of g.i
}

var (
	dialectSQLite = dialect{
		numbers: `(with recursive n(i) as (select $1 + 0 union all select i + 1 from n where i + 1 <= $2) select i from n) g`,
		digits:  `printf('%026d', g.i)`,
	}
	dialectPostgres = dialect{
		numbers: `(select i from generate_series($1::bigint, $2::bigint) i) g`,
		digits:  `lpad(g.i::text, 26, '0')`,
	}
)

// seed copies the finished run so many times, into the database itself: the
// service would take minutes. Copies differ in identifier and time alone. No
// server runs meanwhile.
func (l *lab) seed(ctx context.Context, dir, template string, from, to int) error {
	d, driver, source := dialectSQLite, "sqlite", "file:"+filepath.Join(dir, "stint.db")+"?_pragma=synchronous(OFF)&_pragma=cache_size(-262144)"
	if l.database != "" {
		d, driver, source = dialectPostgres, "pgx", l.database
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // what counts was committed
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // done after the commit
	for table, replaced := range map[string]map[string]string{
		"runs": {
			"id": `'run_' || ` + d.digits,
			// A millisecond apart, and before the original.
			"created_at": `t.created_at - 10000000000 + g.i * 1000`,
		},
		"run_specs": {"run_id": `'run_' || ` + d.digits},
	} {
		if err := copyRows(ctx, tx, d, table, replaced, template, from+1, to); err != nil {
			return fmt.Errorf("copy rows of %s: %w", table, err)
		}
	}
	return tx.Commit()
}

// copyRows copies the row of the template once for each number, with some
// columns replaced.
func copyRows(ctx context.Context, tx *sql.Tx, d dialect, table string, replaced map[string]string, template string, from, to int) error {
	columns, err := columnsOf(ctx, tx, table)
	if err != nil {
		return err
	}
	key := "id"
	if _, ok := replaced[key]; !ok {
		key = "run_id"
	}
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = "t." + c
		if expression, ok := replaced[c]; ok {
			values[i] = expression
		}
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`insert into %s (%s) select %s from %s t cross join %s where t.%s = $3`,
		table, strings.Join(columns, ", "), strings.Join(values, ", "), table, d.numbers, key), from, to, template)
	return err
}

func columnsOf(ctx context.Context, tx *sql.Tx, table string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `select * from `+table+` where 1 = 0`) //nolint:gosec // one of our own tables
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	return columns, rows.Err()
}
