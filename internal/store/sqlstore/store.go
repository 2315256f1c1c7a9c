package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/groupcommit"
)

// Querier is what statements are sent through: a database, a connection or a
// transaction of database/sql.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Engine is what an adapter supplies.
type Engine struct {
	Read Querier // for single statements that change nothing
	// Write runs f in one transaction and makes it durable, or leaves no trace
	// of it when f or the commit fails. It may run f again after a clash with
	// another transaction. The context that f gets is the one to use in it.
	Write func(ctx context.Context, f func(ctx context.Context, q Querier) error) error
	// IsUnavailable tells errors that say nothing about the statement but that the
	// database cannot be reached, or takes no work now.
	IsUnavailable func(error) bool
	Dialect       Dialect
}

// Dialect is where the two languages differ.
type Dialect struct {
	Now      string // the database's clock in microseconds, an expression
	Position string // the function that finds a text within another
	// What a select of rows named l ends with to lock them: to change them, or
	// to keep them as they are. Empty where there is one writer.
	Lock, Share string
	// Statements with an organisation as $1 by which transactions that name
	// trees go on together, and the beginning of a collection alone. Empty
	// where there is one writer.
	ShareEpoch, LockEpoch string
	// EagerRows: rows that a query finds are sent all, also those that nobody reads.
	EagerRows bool
	Counters  Counters
}

// Counters are the statements by which it is counted how much each
// organisation and each agent runs and has ready, and by which claims choose.
type Counters struct {
	// Add counts the run $1 as $2 running and $3 ready runs more, if its turn
	// in the session has come.
	Add string
	// NextOrgs lists organisations that run less than $1 and have runs ready, as
	// (org_id, running, served): $2 of them from $3 on, those first that run
	// least, then those served longest ago.
	NextOrgs string
	// Lock makes the counters of the organisation $1 this transaction's alone,
	// waiting for others or not, and returns a row if it did. Empty where
	// there is one writer.
	Lock, TryLock string
	// ApplyChanges brings the held counters up to date. Empty where they always are.
	ApplyChanges string
	// Candidates finds and locks the runs of the organisation $1 to be claimed
	// next, best first: at most $3, of agents that run less than $2. It may
	// find fewer than there are, but at most MaxBatch are asked for.
	Candidates string
	MaxBatch   int
}

// Store implements store.Store but for Close. It is safe for concurrent use.
type Store struct {
	db Engine
	d  Dialect
}

// New makes a store on an open and migrated database.
func New(e Engine) *Store { return &Store{db: e, d: e.Dialect} }

// Ping checks that the database answers a read and accepts writes.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.Now(ctx); err != nil {
		return err
	}
	return s.write(ctx, "probing for writes", func(ctx context.Context, q Querier) error {
		_, err := exec(ctx, q, `insert into pulse (id, at) values (1, `+s.d.Now+`) on conflict (id) do update set at = excluded.at`)
		return err
	})
}

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var us int64
	if err := queryRow(ctx, s.db.Read, `select `+s.d.Now).Scan(&us); err != nil {
		return time.Time{}, s.Wrap("reading the database's clock", err)
	}
	return time.UnixMicro(us).UTC(), nil
}

// write runs f as one transaction; doing tells what for, in errors.
func (s *Store) write(ctx context.Context, doing string, f func(ctx context.Context, q Querier) error) error {
	return s.Wrap(doing, s.db.Write(ctx, f))
}

// change is write for a transaction with a result. When it fails f may still
// be at work, so nothing of what f made is looked at.
func change[T any](ctx context.Context, s *Store, doing string, f func(ctx context.Context, q Querier) (T, error)) (T, error) {
	var out T
	err := s.write(ctx, doing, func(ctx context.Context, q Querier) (err error) {
		out, err = f(ctx, q)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

type row = Row

// queryRow and queryRows are the Querier's, with text that fits every engine.
func queryRow(ctx context.Context, q Querier, query string, args ...any) *sql.Row {
	return q.QueryRowContext(ctx, query, clean(args)...)
}

func queryRows(ctx context.Context, q Querier, query string, args ...any) (*sql.Rows, error) {
	return q.QueryContext(ctx, query, clean(args)...)
}

// one reads the row that a query finds, or gives store.ErrNotFound.
func one[T any](ctx context.Context, q Querier, scan func(row) (T, error), query string, args ...any) (T, error) {
	v, err := scan(queryRow(ctx, q, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return v, err
}

// all reads every row that a query finds.
func all[T any](ctx context.Context, q Querier, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := queryRows(ctx, q, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// value scans a row of one column.
func value[T any](r row) (v T, err error) { return v, r.Scan(&v) }

// exec returns how many rows a statement changed.
func exec(ctx context.Context, q Querier, query string, args ...any) (int64, error) {
	r, err := q.ExecContext(ctx, query, clean(args)...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// execOne is exec for a statement that must change a row: missing is the error
// when it changes none.
func execOne(ctx context.Context, q Querier, missing error, query string, args ...any) error {
	n, err := exec(ctx, q, query, args...)
	if err == nil && n == 0 {
		err = missing
	}
	return err
}

// Wrap tells what was being done, and whether the database is away; the
// port's own errors stay bare.
func (s *Store) Wrap(doing string, err error) error {
	switch {
	case err == nil || isVerdict(err):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, groupcommit.ErrClosed) || s.db.IsUnavailable(err):
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isVerdict tells the port's errors from faults.
func isVerdict(err error) bool {
	if slices.Contains([]error{store.ErrNotFound, store.ErrExists, store.ErrLeaseLost, store.ErrKeyReused, store.ErrKeyInUse}, err) {
		return true
	}
	switch err.(type) { //nolint:errorlint // same
	case *store.FencedError, *store.StateError, *store.ConflictError:
		return true
	}
	return false
}
