// Package sqlite implements the store port in one SQLite file.
//
// One goroutine writes. It runs each waiting transaction in a savepoint, so that the
// failure of a transaction does not affect the others, and commits them together with
// one sync of the disk (WAL, synchronous=FULL). Acknowledged writes survive a loss of
// power. Readers have their own connections and never wait for the writer.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite" // registers itself as "sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// Options configures Open. The zero value is valid.
type Options struct {
	Logger *slog.Logger // slog.Default() if nil
}

// Store is a store.Store in a file. It is safe for concurrent use.
type Store struct {
	*sqlstore.Store
	path    string
	writer  *writer
	readers *sql.DB
	reads   *statements  // statements on readers
	close   func() error // closes everything at the first call only
}

// maxReaders is the maximum number of concurrent reads.
const maxReaders = 4

//go:embed migrations/*.sql
var migrations embed.FS

// Open opens the database file and migrates its schema. If the file does not exist,
// it is created with mode 0600; its folder must exist. Only one process should use the
// file; concurrent writes of a second process wait, for at most 10 seconds.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	log := cmp.Or(o.Logger, slog.Default())
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	if err := ensureFile(path); err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	db, err := sql.Open("sqlite", dataSource(path, "cache_size(-8192)", "journal_size_limit(67108864)", "wal_autocheckpoint(4000)"))
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, log); err != nil {
		return nil, errors.Join(fmt.Errorf("migrating the database: %w", err), db.Close())
	}
	w, err := newWriter(ctx, db)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database: %w", err), db.Close())
	}
	r, err := sql.Open("sqlite", dataSource(path, "cache_size(-2048)", "query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database: %w", err), w.close())
	}
	r.SetMaxOpenConns(maxReaders)
	r.SetMaxIdleConns(maxReaders)
	return newStore(path, w, r), nil
}

func newStore(path string, w *writer, r *sql.DB) *Store {
	s := &Store{path: path, writer: w, readers: r, reads: newStatements(r)}
	s.Store = sqlstore.New(sqlstore.Engine{Read: s.reads, Write: w.do, IsUnavailable: isUnavailable, Dialect: dialect})
	s.close = sync.OnceValue(func() error {
		w.group.Close()
		// SQLite moves the write-ahead log into the file when the last connection is
		// closed. The writer closes last, so that it does this.
		return errors.Join(r.Close(), w.close())
	})
	return s
}

var dialect = sqlstore.Dialect{
	Now:      `cast(unixepoch('subsec') * 1000000 as integer)`,
	Position: `instr`,
	Contains: `not exists (select 1 from json_each(%[2]s) w where not exists (
			select 1 from json_each(%[1]s) h where h.key = w.key and h.value = w.value))`,
	Counters: sqlstore.Counters{
		Add: `insert into load (org_id, agent_id, running, ready, served)
			select org_id, '', $2, $3, 0 from runs where id = $1 and ready = 1
			union all select org_id, agent_id, $2, $3, 0 from runs where id = $1 and ready = 1
			on conflict (org_id, agent_id) do update set running = running + excluded.running, ready = ready + excluded.ready`,
		Of: `select agent_id, running, ready from load where org_id = $1`,
		NextOrgs: `select org_id, running, served from load
			where agent_id = '' and ready > 0 and running < $1 order by running, served, org_id limit $2 offset $3`,
		// Selects the first run of each agent that is below its limit, and of these
		// runs the first. A worker without labels does not decode those of runs.
		Candidates: `select r.id, r.session_id, coalesce(r.inherits, ''), r.epoch from load a join runs r on r.id = (
				select l.id from runs l where l.agent_id = a.agent_id and l.status = 'pending' and l.ready = 1
					and (l.placement is null or $4 <> '{}' and not exists (select 1 from json_each(l.placement) p
						where not exists (select 1 from json_each($4) w where w.key = p.key and w.value = p.value)))
				order by l.priority desc, l.created_at, l.id limit 1)
			where a.org_id = $1 and a.agent_id <> '' and a.ready > 0 and a.running < $2
			order by r.priority desc, r.created_at, r.id limit $3`,
		MaxBatch: 1,
	},
}

// isUnavailable reports whether an error comes from the file, the disk, the memory, a
// lock, or a closed database rather than from a statement.
func isUnavailable(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return errors.Is(err, sql.ErrConnDone)
	}
	switch e.Code() & 0xff { // the primary result code
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_NOMEM, lib.SQLITE_READONLY, lib.SQLITE_IOERR, lib.SQLITE_FULL, lib.SQLITE_CANTOPEN:
		return true
	}
	return false
}

// ensureFile creates the file if it does not exist and sets its mode to 0600.
// SQLite gives the same mode to the write-ahead log.
func ensureFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// dataSource returns the data source name of the file with connection settings.
func dataSource(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}}
	q["_pragma"] = append([]string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"}, pragmas...)
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithSlog(log))
	if err != nil {
		return err
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		log.InfoContext(ctx, "migrated the database", "version", m.Source.Version, "took", m.Duration)
	}
	return err
}

// Close waits for writes in progress and closes the file.
func (s *Store) Close() error { return s.close() }

// IntegrityCheck reads the whole file and returns nil if it is undamaged. Otherwise the
// error joins one error for each problem.
func (s *Store) IntegrityCheck(ctx context.Context) error {
	rows, err := s.readers.QueryContext(ctx, `pragma integrity_check`)
	if err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	defer rows.Close()
	var errs []error
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return fmt.Errorf("checking the database: %w", err)
		}
		if line != "ok" {
			errs = append(errs, errors.New(line))
		}
	}
	return errors.Join(append(errs, rows.Err())...)
}

// Backup writes a consistent copy of the database to a new file at path, with mode
// 0600. Other calls may read and write meanwhile. If the file already exists, Backup
// fails.
func (s *Store) Backup(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("backing up the database: %w", err)
	}
	if err := s.copyTo(ctx, path); err != nil {
		return errors.Join(fmt.Errorf("backing up the database: %w", err), os.Remove(path))
	}
	return nil
}

func (s *Store) copyTo(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", dataSource(s.path))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the copy is synced below
	if _, err := db.ExecContext(ctx, `vacuum into $1`, path); err != nil {
		return err
	}
	return syncFile(path)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
