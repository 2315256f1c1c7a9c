// Package postgres answers: how does the store live in PostgreSQL?
//
// Several servers may share the database. Transitions are transactions that
// lock the run's row; appends touch only their slot and are committed many at
// once. Claims skip what others hold. The journal is partitioned by ranges of
// run identifiers, which sort by time. Nothing here notifies: wake-ups are
// another port's matter.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/stint-dev/stint/internal/store/groupcommit"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// Options are what Open may be told; the zero value works.
type Options struct {
	Logger   *slog.Logger // slog.Default() when nil
	MaxConns int          // connections to the database; 16 when 0
}

// Store is the store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	*sqlstore.Store
	db      *sql.DB
	log     *slog.Logger
	appends *groupcommit.Group[*appending]
	close   func() error // once
}

const (
	defaultConns = 16
	// A server that freezes within a transaction holds what others wait for:
	// so it is thrown out, and they do not wait for ever.
	lockTimeout = 5 * time.Second
	idleTimeout = 30 * time.Second
)

//go:embed migrations/*.sql
var migrations embed.FS

// Open connects to the database and brings its schema up to date; of several
// servers that start at once one does so and the others wait. The URL is one
// of libpq's (postgres://user@host/database?…).
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("opening the database: the URL is no postgres:// URL") // the cause may hold the password
	}
	c.MaxConns = int32(cmp.Or(o.MaxConns, defaultConns))
	p := c.ConnConfig.RuntimeParams
	p["application_name"] = cmp.Or(p["application_name"], "stint")
	p["lock_timeout"] = cmp.Or(p["lock_timeout"], lockTimeout.String())
	p["idle_in_transaction_session_timeout"] = cmp.Or(p["idle_in_transaction_session_timeout"], idleTimeout.String())
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	s := newStore(pool, cmp.Or(o.Logger, slog.Default()))
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("migrating the database: %w", err), s.Close())
	}
	if err := s.EnsurePartitions(ctx, time.Now()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(pool *pgxpool.Pool, log *slog.Logger) *Store {
	s := &Store{db: stdlib.OpenDBFromPool(pool), log: log}
	s.Store = sqlstore.New(sqlstore.Engine{Read: s.db, Write: s.write, IsUnavailable: isUnavailable, Dialect: dialect})
	s.appends = groupcommit.New(appenders, mostAppends, s.commitAppends)
	s.close = sync.OnceValue(func() error {
		s.appends.Close()
		err := s.db.Close()
		pool.Close()
		return err
	})
	return s
}

var dialect = sqlstore.Dialect{
	Now:       `(extract(epoch from clock_timestamp()) * 1000000)::bigint`,
	Position:  `strpos`,
	Lock:      ` for update of l`,
	Share:     ` for share of l`,
	EagerRows: true,
	// The first number keeps these locks apart from others of the database.
	ShareEpoch: `select pg_advisory_xact_lock_shared(1937009262, hashtext($1))`,
	LockEpoch:  `select pg_advisory_xact_lock(1937009262, hashtext($1))`,
	Counters:   counters,
}

// Close waits for what is being written, then closes the connections.
func (s *Store) Close() error { return s.close() }

// migrationLock is the advisory lock under which the schema changes.
const migrationLock = 0x7374696e74 // "stint"

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, s.db, files, goose.WithSlog(s.log))
	if err != nil {
		return err
	}
	return s.alone(ctx, func() error {
		done, err := p.Up(ctx)
		for _, m := range done {
			s.log.InfoContext(ctx, "migrated the database", "version", m.Source.Version, "took", m.Duration)
		}
		return err
	})
}

// alone runs f while no other server does so with this database.
func (s *Store) alone(ctx context.Context, f func() error) (err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `set lock_timeout = 0`); err != nil {
		return err
	}
	defer func() {
		_, undone := conn.ExecContext(context.WithoutCancel(ctx), `reset lock_timeout`)
		err = errors.Join(err, undone)
	}()
	if _, err := conn.ExecContext(ctx, `select pg_advisory_lock($1)`, migrationLock); err != nil {
		return err
	}
	defer func() {
		_, undone := conn.ExecContext(context.WithoutCancel(ctx), `select pg_advisory_unlock($1)`, migrationLock)
		err = errors.Join(err, undone)
	}()
	return f()
}
