package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/stint-dev/stint/internal/store/groupcommit"
	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// maxCommit is the greatest number of transactions that share a commit.
const maxCommit = 512

// writer owns conn, the only connection that writes. From newWriter to close, only
// the group's goroutine uses conn.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts *statements
	group *groupcommit.Group[operation]
}

// operation is a caller's transaction.
type operation struct {
	ctx context.Context // without cancellation: a transaction that has begun is not interrupted
	f   func(ctx context.Context, q sqlstore.Querier) error
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, conn: conn, stmts: newStatements(conn)}
	w.group = groupcommit.New(1, maxCommit, w.commit)
	return w, nil
}

// do runs f as one transaction. If ctx ends, do returns, but f is not interrupted and
// may continue: if a statement were interrupted, SQLite would roll back all
// transactions of the commit.
func (w *writer) do(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) error {
	return w.group.Do(ctx, operation{ctx: context.WithoutCancel(ctx), f: f})
}

// commit runs the waiting operations and makes them durable together.
func (w *writer) commit(ops iter.Seq[operation]) []error {
	ctx := context.Background() // a commit serves many callers, so none of their contexts cancels it
	var results []error
	var failed error // if not nil, the whole transaction must be rolled back
	for op := range ops {
		if len(results) == 0 {
			failed = w.exec(ctx, `begin immediate`)
		}
		var err error
		if failed == nil {
			err, failed = w.run(op)
		}
		results = append(results, err)
		if failed != nil {
			break
		}
	}
	if failed == nil {
		failed = w.exec(ctx, `commit`)
	}
	if failed != nil {
		_ = w.exec(ctx, `rollback`) // fails if SQLite has already rolled back
		for i := range results {
			results[i] = failed
		}
	}
	return results
}

// run runs one operation in a savepoint. It returns the operation's error, and
// failed if the whole transaction cannot continue.
func (w *writer) run(op operation) (err, failed error) {
	if failed := w.exec(op.ctx, `savepoint operation`); failed != nil {
		return nil, failed
	}
	if err = w.call(op); err != nil {
		if failed := w.exec(op.ctx, `rollback to operation`); failed != nil {
			return err, fmt.Errorf("%w: rolling back: %w", err, failed)
		}
	}
	return err, w.exec(op.ctx, `release operation`)
}

// call runs the operation and converts a panic to an error.
func (w *writer) call(op operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sqlite: a transaction panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return op.f(op.ctx, w.stmts)
}

func (w *writer) exec(ctx context.Context, statement string) error {
	_, err := w.stmts.ExecContext(ctx, statement)
	return err
}

// close waits until the submitted transactions are committed, and closes the database.
func (w *writer) close() error {
	w.group.Close()
	return errors.Join(w.stmts.close(), w.conn.Close(), w.db.Close())
}
