package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/groupcommit"
)

// Querier executes statements. *sql.DB, *sql.Conn, and *sql.Tx implement it.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Engine is the part of a store that an adapter supplies.
type Engine struct {
	Read Querier // for single statements that only read
	// Write runs f in one transaction and makes it durable, or rolls it back if
	// f or the commit fails. It may run f again after a conflict with another
	// transaction. f must use the context that it receives.
	Write func(ctx context.Context, f func(ctx context.Context, q Querier) error) error
	// IsUnavailable reports whether an error means that the database cannot be
	// reached or cannot accept work, rather than that the statement is wrong.
	IsUnavailable func(error) bool
	Dialect       Dialect
}

// Dialect holds the expressions and clauses in which the engines differ.
type Dialect struct {
	Now      string // an expression for the database's clock, in microseconds since 1970
	Position string // the name of a function of two texts: the index, from 1, of the second in the first, or 0
	// Contains is the format of a condition on the texts of two JSON objects of strings:
	// the first has all members of the second. The second occurs once.
	Contains string
	// Lock and Share are appended to a select from a table with the alias l. Lock
	// locks the rows exclusively, so that the transaction can change them. Share
	// prevents changes by other transactions. Both are empty if the engine has
	// only one writer.
	Lock, Share string
	// ShareEpoch and LockEpoch lock the collection epoch of the organisation
	// $1: shared for transactions that reference snapshots, exclusive for the
	// beginning of a collection. Both are empty if the engine has only one
	// writer.
	ShareEpoch, LockEpoch string
	// EagerRows is set if the server sends all rows of a query even if the client
	// stops reading. Queries must then limit the rows themselves.
	EagerRows bool
	Counters  Counters
}

// Counters are the statements that count the running and the ready runs of each
// organisation and agent, and that select runs to claim.
type Counters struct {
	// Add adds $2 to the running and $3 to the ready runs of the organisation
	// and the agent of run $1, unless the run waits for its session.
	Add string
	// Of returns the counters of the organisation $1, as (agent_id, running, ready), with
	// those of the whole organisation under the agent ''.
	Of string
	// NextOrgs returns organisations with ready runs and fewer than $1 running
	// runs, as (org_id, running, served): up to $2 of them from offset $3 in the
	// order of orgLoad.compare. The first page may contain more organisations, in
	// any order.
	NextOrgs string
	// Lock and TryLock lock the counters of the organisation $1, and return a
	// row if they succeed. Lock waits for other transactions, TryLock does not.
	// Both are empty if the engine has only one writer.
	Lock, TryLock string
	// ApplyChanges adds pending changes to the locked counters of the
	// organisation $1. It is empty if Add changes the counters directly.
	ApplyChanges string
	// Candidates returns and locks the runs of the organisation $1 to be claimed
	// next, in order, as (id, session, artifact that the run inherits or empty, number of
	// the last attempt): at most $3, of agents with fewer than $2 running runs, that a
	// worker with the labels $4 (a JSON object) may claim. It may return fewer runs than
	// could be claimed.
	Candidates string
	MaxBatch   int // greatest $3 of Candidates
}

// Store implements store.Store without Close. It is safe for concurrent use.
type Store struct {
	db Engine
	d  Dialect
}

// New returns a store for an open and migrated database.
func New(e Engine) *Store { return &Store{db: e, d: e.Dialect} }

// Ping checks that the database answers a read and accepts a write.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.Now(ctx); err != nil {
		return err
	}
	return s.write(ctx, "testing a write", func(ctx context.Context, q Querier) error {
		_, err := exec(ctx, q, `insert into pulse (id, at) values (1, `+s.d.Now+`) on conflict (id) do update set at = excluded.at`)
		return err
	})
}

// Now returns the time of the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var us int64
	if err := queryRow(ctx, s.db.Read, `select `+s.d.Now).Scan(&us); err != nil {
		return time.Time{}, s.Wrap("reading the database's clock", err)
	}
	return time.UnixMicro(us).UTC(), nil
}

// write runs f as one transaction. Errors begin with doing.
func (s *Store) write(ctx context.Context, doing string, f func(ctx context.Context, q Querier) error) error {
	return s.Wrap(doing, s.db.Write(ctx, f))
}

// change is like write for a transaction with a result. If the transaction fails, f may
// still be running, so change does not read the result and returns a zero value.
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

// writeOne executes a statement that must change a row as one transaction. If it
// changes none, the error is missing.
func (s *Store) writeOne(ctx context.Context, doing string, missing error, query string, args ...any) error {
	return s.write(ctx, doing, func(ctx context.Context, q Querier) error { return execOne(ctx, q, missing, query, args...) })
}

// get returns the first row of a query. Without rows, the error is
// store.ErrNotFound. Other errors begin with doing.
func get[T any](ctx context.Context, s *Store, doing string, scan func(Row) (T, error), query string, args ...any) (T, error) {
	v, err := one(ctx, s.db.Read, scan, query, args...)
	return v, s.Wrap(doing, err)
}

// list returns every row of a query. Errors begin with doing.
func list[T any](ctx context.Context, s *Store, doing string, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	out, err := all(ctx, s.db.Read, scan, query, args...)
	return out, s.Wrap(doing, err)
}

// queryRow runs a query for one row, with escaped texts in its arguments.
func queryRow(ctx context.Context, q Querier, query string, args ...any) *sql.Row {
	return q.QueryRowContext(ctx, query, clean(args)...)
}

// one returns the first row of a query. Without rows, the error is
// store.ErrNotFound.
func one[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (T, error) {
	v, err := scan(queryRow(ctx, q, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return v, err
}

// rows iterates over the rows of a query. It ends after an error.
func rows[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		found, err := q.QueryContext(ctx, query, clean(args)...)
		if err != nil {
			yield(none, err)
			return
		}
		defer found.Close()
		for found.Next() {
			v, err := scan(found)
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := found.Err(); err != nil {
			yield(none, err)
		}
	}
}

// all returns every row of a query.
func all[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	var out []T
	for v, err := range rows(ctx, q, scan, query, args...) {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// value scans a row with one column.
func value[T any](r Row) (v T, err error) { return v, r.Scan(&v) }

// exec executes a statement and returns the number of rows that it changed.
func exec(ctx context.Context, q Querier, query string, args ...any) (int64, error) {
	r, err := q.ExecContext(ctx, query, clean(args)...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// execOne executes a statement that must change a row. If it changes none, it
// returns missing.
func execOne(ctx context.Context, q Querier, missing error, query string, args ...any) error {
	n, err := exec(ctx, q, query, args...)
	if err == nil && n == 0 {
		err = missing
	}
	return err
}

// Wrap adds the failed operation to an error, and store.ErrUnavailable if the database
// is unavailable. Most errors that the port defines are returned unchanged; see
// isPortError.
func (s *Store) Wrap(doing string, err error) error {
	switch {
	case err == nil || isPortError(err):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, groupcommit.ErrClosed) || s.db.IsUnavailable(err):
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isPortError reports whether err is one of the errors of the port that Wrap returns
// unchanged.
func isPortError(err error) bool {
	if slices.Contains([]error{store.ErrNotFound, store.ErrExists, store.ErrLeaseLost, store.ErrKeyReused, store.ErrKeyInUse}, err) {
		return true
	}
	switch err.(type) { //nolint:errorlint // the port's errors are not wrapped
	case *store.FencedError, *store.StateError, *store.ConflictError:
		return true
	}
	return false
}
