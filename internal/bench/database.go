package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// databaseName tells people what keeps the state.
func (l *lab) databaseName(ctx context.Context) (string, error) {
	if l.o.Database == "" {
		return "SQLite in the data folder", nil
	}
	conn, err := l.connect(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to lose
	var version string
	if err := conn.QueryRow(ctx, `show server_version`).Scan(&version); err != nil {
		return "", fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	return "PostgreSQL " + version, nil
}

func (l *lab) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, l.o.Database)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return conn, nil
}

// withDatabase makes an empty PostgreSQL database for f and drops it after.
func (l *lab) withDatabase(ctx context.Context, f func() error) (err error) {
	if l.o.Database == "" {
		return f()
	}
	at, err := url.Parse(l.o.Database)
	if err != nil {
		return errors.New("the database's address is no URL")
	}
	name := fmt.Sprintf("stint_bench_%s_%d", strings.ReplaceAll(l.current, "-", "_"), time.Now().UnixNano())
	quoted := pgx.Identifier{name}.Sanitize()
	if err := l.statement(ctx, `create database `+quoted); err != nil {
		return err
	}
	at.Path = "/" + name
	l.database = at.String()
	defer func() {
		l.database = ""
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, l.statement(drop, `drop database `+quoted+` with (force)`))
	}()
	return f()
}

func (l *lab) statement(ctx context.Context, sql string) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to lose
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%.20s …: %w", sql, err)
	}
	return nil
}
