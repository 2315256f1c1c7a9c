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
	tries        = 8               // of a transaction that clashes with others
	rollbackTime = 5 * time.Second // for giving a transaction up

	commit = "commit" // what the server answers COMMIT to, unless it had to roll back
)

// write runs f in a transaction, again when it clashes with another one.
func (s *Store) write(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) (err error) {
	for range tries {
		if err = s.writeOnce(ctx, f); !clashed(err) {
			return err
		}
	}
	return fmt.Errorf("after %d tries: %w", tries, err)
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

// clashed reports whether a transaction was rolled back for the sake of others
// and may succeed when it runs again.
func clashed(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01") // serialization_failure, deadlock_detected
}

// isUnavailable tells errors of the connection, the server and its resources from those
// of a statement.
func isUnavailable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "25006", "25P03", "40001", "40P01", "55P03", "57014": // read only, idle, clashes, lock not available, cancelled
			return true
		}
		// Connection exceptions, insufficient resources, operator intervention.
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

// transaction is a transaction on a connection of its own. Its beginning goes
// to the server together with the first statements and its end with the last
// ones, so that a transition costs few round trips and holds the counters, for
// which all wait, no longer than the commit takes.
type transaction struct {
	*sql.Conn
	begun     bool
	committed bool
	last      []sqlstore.Step
}

// begin makes the transaction begin before a statement that goes alone.
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

// QueryRowContext runs a statement within the transaction. The row's error is
// its own also when the transaction could not begin.
func (t *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := t.begin(ctx); err != nil {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return t.Conn.QueryRowContext(ended, query, args...)
	}
	return t.Conn.QueryRowContext(ctx, query, args...)
}

// AtEnd keeps steps for the commit.
func (t *transaction) AtEnd(steps ...sqlstore.Step) { t.last = append(t.last, steps...) }

// Pipeline sends the steps in one go, behind the transaction's beginning.
func (t *transaction) Pipeline(ctx context.Context, steps []sqlstore.Step) error {
	if !t.begun {
		steps = append([]sqlstore.Step{{Query: "begin"}}, steps...)
	}
	t.begun = true // or about to be, when it fails halfway
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
			if err := take(results, s); err != nil {
				_ = results.Close() // it says the same, or what came of it
				return err
			}
		}
		return results.Close()
	})
}

// take reads the result of one step.
func take(results pgx.BatchResults, s sqlstore.Step) error {
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

// commit sends what was kept for the end and the commit.
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

// rollBack gives the transaction up, also when the caller has left.
func (t *transaction) rollBack(ctx context.Context) {
	if !t.begun {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	// A connection that cannot even do this is broken, and so is dropped.
	_, _ = t.Conn.ExecContext(ctx, "rollback")
}
