package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

const (
	maxTries      = 8 // of a transaction that conflicts with others
	rollbackLimit = 5 * time.Second

	commit = "commit"
)

// write runs f in a transaction. After a conflict with another transaction it runs f
// again, maxTries times in all.
func (s *Store) write(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) (err error) {
	for range maxTries {
		if err = s.writeOnce(ctx, f); !isConflict(err) {
			return err
		}
	}
	return fmt.Errorf("after %d attempts: %w", maxTries, err)
}

func (s *Store) writeOnce(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) (err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	tx := &transaction{Conn: conn}
	defer func() {
		if !tx.committed {
			tx.rollBack(ctx)
		}
		if closed := conn.Close(); err == nil {
			err = closed
		}
	}()
	if err := f(ctx, tx); err != nil {
		return err
	}
	return tx.commit(ctx)
}

// isConflict reports whether err means that a transaction was rolled back because of a
// concurrent transaction, and may succeed if it runs again.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01") // serialization_failure, deadlock_detected
}

// isUnavailable reports whether an error comes from the connection, the server, its
// resources, or a concurrent transaction rather than from a statement.
func isUnavailable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "25006", "25P03", "40001", "40P01", "55P03", "57014": // read only, idle, conflicts, lock not available, cancelled
			return true
		}
		// The classes of connection exceptions, insufficient resources, and
		// operator intervention.
		return strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "53") || strings.HasPrefix(e.Code, "57P")
	}
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, driver.ErrBadConn, sql.ErrConnDone} {
		if errors.Is(err, broken) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return network || connecting || pgconn.SafeToRetry(err)
}

// transaction is a transaction on its own connection. BEGIN is sent together with the
// first steps, and COMMIT together with the deferred steps. A transition therefore
// needs few round trips and locks the counters only during the commit.
type transaction struct {
	*sql.Conn
	begun     bool
	committed bool
	last      []sqlstore.Step
}

// begin begins the transaction if it has not begun.
func (t *transaction) begin(ctx context.Context) error {
	if t.begun {
		return nil
	}
	return t.Pipeline(ctx, nil)
}

// ExecContext runs a statement within the transaction.
func (t *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	return t.Conn.ExecContext(ctx, query, args...)
}

// QueryContext runs a statement within the transaction.
func (t *transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	return t.Conn.QueryContext(ctx, query, args...)
}

// QueryRowContext runs a statement within the transaction. If the transaction
// cannot begin, the row's Scan returns an error.
func (t *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := t.begin(ctx); err != nil {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return t.Conn.QueryRowContext(ended, query, args...)
	}
	return t.Conn.QueryRowContext(ctx, query, args...)
}

// AtEnd defers steps until the commit.
func (t *transaction) AtEnd(steps ...sqlstore.Step) { t.last = append(t.last, steps...) }

// Pipeline sends the steps in one round trip, after BEGIN if necessary.
func (t *transaction) Pipeline(ctx context.Context, steps []sqlstore.Step) error {
	if !t.begun {
		steps = append([]sqlstore.Step{{Query: "begin"}}, steps...)
	}
	t.begun = true // set even if sending fails, so that rollBack is sent
	return t.send(ctx, steps)
}

func (t *transaction) send(ctx context.Context, steps []sqlstore.Step) error {
	b := new(pgx.Batch)
	for _, s := range steps {
		b.Queue(s.Query, s.Args...)
	}
	return t.Raw(func(raw any) error {
		results := raw.(*stdlib.Conn).Conn().SendBatch(ctx, b)
		for _, s := range steps {
			if err := readResult(results, s); err != nil {
				_ = results.Close() // returns the same error or one that it caused
				return err
			}
		}
		return results.Close()
	})
}

// readResult reads the result of one step.
func readResult(results pgx.BatchResults, s sqlstore.Step) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if s.Row == nil {
			continue
		}
		if err := s.Row(rows); err != nil {
			return err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	if s.Query == commit && rows.CommandTag().String() != "COMMIT" {
		return errors.New("the transaction was rolled back by the server")
	}
	if s.Done != nil {
		return s.Done(rows.CommandTag().RowsAffected())
	}
	return nil
}

// commit sends the deferred steps and COMMIT.
func (t *transaction) commit(ctx context.Context) error {
	if !t.begun {
		if len(t.last) == 0 {
			t.committed = true
			return nil
		}
		if err := t.begin(ctx); err != nil {
			return err
		}
	}
	err := t.send(ctx, append(t.last, sqlstore.Step{Query: commit}))
	t.committed = err == nil
	return err
}

// rollBack rolls the transaction back, even if ctx has ended.
func (t *transaction) rollBack(ctx context.Context) {
	if !t.begun {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	// If this fails, the connection is broken and will be dropped.
	_, _ = t.Conn.ExecContext(ctx, "rollback")
}
