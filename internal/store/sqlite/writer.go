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

// most is how many transactions share a commit.
const most = 512

// writer owns the one connection that writes. Only the group's goroutine uses
// it once newWriter has returned.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts *statements
	group *groupcommit.Group[operation]
}

// operation is one transaction of a caller.
type operation struct {
	ctx context.Context // carries values only: what has begun is not interrupted
	f   func(ctx context.Context, q sqlstore.Querier) error
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, conn: conn, stmts: newStatements(conn)}
	w.group = groupcommit.New(1, most, w.commit)
	return w, nil
}

// do runs f as one transaction. When ctx ends, f may still run: SQLite would
// roll back the whole commit if it were interrupted within a statement.
func (w *writer) do(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) error {
	return w.group.Do(ctx, operation{ctx: context.WithoutCancel(ctx), f: f})
}

// commit runs the operations that wait and makes them durable together.
func (w *writer) commit(ops iter.Seq[operation]) []error {
	ctx := context.Background() // a commit belongs to many callers
	var verdicts []error
	var broken error // the transaction is lost, with all that was done in it
	for op := range ops {
		if len(verdicts) == 0 {
			broken = w.exec(ctx, `begin immediate`)
		}
		var verdict error
		if broken == nil {
			verdict, broken = w.run(op)
		}
		verdicts = append(verdicts, verdict)
		if broken != nil {
			break
		}
	}
	if broken == nil {
		broken = w.exec(ctx, `commit`)
	}
	if broken != nil {
		_ = w.exec(ctx, `rollback`) // fails where SQLite has rolled back by itself
		for i := range verdicts {
			verdicts[i] = broken
		}
	}
	return verdicts
}

// run runs one operation in a savepoint. Its error is the caller's; broken
// says that the whole transaction cannot go on.
func (w *writer) run(op operation) (verdict, broken error) {
	if err := w.exec(op.ctx, `savepoint operation`); err != nil {
		return nil, err
	}
	verdict = w.guarded(op)
	if verdict != nil {
		if err := w.exec(op.ctx, `rollback to operation`); err != nil {
			return verdict, fmt.Errorf("%w: undoing it: %w", verdict, err)
		}
	}
	if err := w.exec(op.ctx, `release operation`); err != nil {
		return verdict, err
	}
	return verdict, nil
}

func (w *writer) guarded(op operation) (err error) {
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

// close ends the connection. The group must be closed before.
func (w *writer) close() error {
	w.group.Close()
	return errors.Join(w.stmts.close(), w.conn.Close(), w.db.Close())
}
