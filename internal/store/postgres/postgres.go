// Package postgres implements the store port in PostgreSQL.
//
// Several servers may share the database. Transitions are transactions that lock
// the run's row. Appends take only their slot and are committed in groups. Claims
// skip locked rows. The journal is partitioned by ranges of run IDs, which sort by
// creation time. The package sends no notifications; see package notify.
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
	"github.com/pressly/goose/v3/lock"

	"github.com/stint-dev/stint/internal/store/groupcommit"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// Options configures Open. The zero value is valid.
type Options struct {
	Logger   *slog.Logger // slog.Default() if nil
	MaxConns int          // maximum number of connections; 16 if 0
}

// Store is a store.Store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	*sqlstore.Store
	db      *sql.DB
	log     *slog.Logger
	appends *groupcommit.Group[*pendingAppend]
	close   func() error // closes everything at the first call only
}

const (
	defaultConns = 16
	// A server that stops responding within a transaction keeps its locks. The
	// limits end the wait of other servers and the database session of that server.
	lockTimeout = 5 * time.Second
	idleTimeout = 30 * time.Second
)

//go:embed migrations/*.sql
var migrations embed.FS

// Open connects to the database and migrates its schema. If several servers start
// at the same time, one migrates and the others wait. The URL has libpq's form
// (postgres://user@host/database?…).
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("opening the database: the URL is not a valid postgres:// URL") // the cause may contain the password
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
	s.appends = groupcommit.New(appenders, maxAppends, s.commitAppends)
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
	Contains:  `%s::jsonb @> %s::jsonb`,
	Lock:      ` for update of l`,
	Share:     ` for share of l`,
	EagerRows: true,
	// The first number distinguishes these advisory locks from others.
	ShareEpoch: `select pg_advisory_xact_lock_shared(1937009262, hashtext($1))`,
	LockEpoch:  `select pg_advisory_xact_lock(1937009262, hashtext($1))`,
	Counters:   counters,
}

// Close waits for writes in progress and closes the connections.
func (s *Store) Close() error { return s.close() }

// migrationLock is the advisory lock that is held while the schema changes.
const migrationLock = 0x7374696e74 // "stint"

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	// Other servers wait for up to an hour, as they must not run with an old schema.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 3600))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, s.db, files, goose.WithSlog(s.log), goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		s.log.InfoContext(ctx, "migrated the database", "version", m.Source.Version, "took", m.Duration)
	}
	return err
}
