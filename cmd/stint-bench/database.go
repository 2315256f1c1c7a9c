package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"; package sqlite registers "sqlite"
)

// databaseName returns the kind of database for the head of the report.
func (l *lab) databaseName(ctx context.Context) (name string) {
	if l.database == "" {
		return "SQLite in the data folder"
	}
	db := must(sql.Open("pgx", l.database))
	defer db.Close() //nolint:errcheck // was only read from
	check(db.QueryRowContext(ctx, `show server_version`).Scan(&name))
	return "PostgreSQL " + name
}

// createDatabase creates an empty PostgreSQL database for the scenario.
func (l *lab) createDatabase(ctx context.Context) {
	if l.database == "" {
		return
	}
	db := must(sql.Open("pgx", l.database))
	l.cleanup(db.Close)
	name := fmt.Sprintf("stint_bench_%s_%d", l.scenario, time.Now().UnixNano())
	must(db.ExecContext(ctx, `create database `+name))
	l.cleanup(func() error {
		_, err := db.ExecContext(context.WithoutCancel(ctx), `drop database `+name+` with (force)`)
		return err
	})
	at := must(url.Parse(l.database))
	at.Path = "/" + name
	l.dsn = at.String()
}

// seed inserts to-from copies of the finished run template into the database, because
// creating the runs through the API would take minutes. The copies differ only in ID
// and time. No server may be running.
func (l *lab) seed(ctx context.Context, dir, template string, from, to int) {
	driver, source := "sqlite", "file:"+filepath.Join(dir, "stint.db")+"?_pragma=synchronous(OFF)&_pragma=cache_size(-262144)"
	if l.dsn != "" {
		driver, source = "pgx", l.dsn
	}
	db := must(sql.Open(driver, source))
	defer db.Close() //nolint:errcheck // the transaction was committed
	db.SetMaxOpenConns(1)
	tx := must(db.BeginTx(ctx, nil))
	defer tx.Rollback()                                            //nolint:errcheck // no effect after the commit
	id := `'run_0000000' || cast(1000000000000000000 + i as text)` // 26 digits
	copyRows(ctx, tx, "runs", map[string]string{"id": id, "created_at": `created_at - 10000000000 + i * 1000`}, template, from, to)
	copyRows(ctx, tx, "run_specs", map[string]string{"run_id": id}, template, from, to)
	check(tx.Commit())
}

// copyRows copies the row of the run template once for each number i, from < i ≤ to.
// replaced contains an SQL expression of i for each column that is not copied.
func copyRows(ctx context.Context, tx *sql.Tx, table string, replaced map[string]string, template string, from, to int) {
	rows := must(tx.QueryContext(ctx, `select * from `+table+` where 1 = 0`))
	columns := must(rows.Columns())
	check(errors.Join(rows.Err(), rows.Close()))
	key, values := "run_id", slices.Clone(columns)
	for i, c := range columns {
		if expression, ok := replaced[c]; ok {
			values[i] = expression
		}
		if c == "id" {
			key = c
		}
	}
	statement := fmt.Sprintf(`insert into %[1]s (%[2]s)
		with recursive numbers(i) as (select cast($1 as bigint) + 1 union all select i + 1 from numbers where i < cast($2 as bigint))
		select %[3]s from %[1]s cross join numbers where %[4]s = $3`, table, strings.Join(columns, ", "), strings.Join(values, ", "), key)
	must(tx.ExecContext(ctx, statement, from, to, template))
}
