package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// maxStatements is the greatest number of cached statements. Only the queries of lists,
// which combine filters, have many different texts.
const maxStatements = 256

// preparer is implemented by *sql.DB and *sql.Conn.
type preparer interface {
	sqlstore.Querier
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// statements is a Querier that prepares each text once. It is safe for concurrent
// use if its preparer is.
type statements struct {
	from preparer

	mu     sync.RWMutex // guards cached
	cached map[string]*sql.Stmt
}

func newStatements(from preparer) *statements {
	return &statements{from: from, cached: make(map[string]*sql.Stmt)}
}

// get returns the prepared statement, or nil if the query must be run unprepared,
// because preparing it failed or maxStatements statements are cached.
func (s *statements) get(ctx context.Context, query string) *sql.Stmt {
	s.mu.RLock()
	stmt := s.cached[query]
	s.mu.RUnlock()
	if stmt != nil {
		return stmt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt := s.cached[query]; stmt != nil || len(s.cached) >= maxStatements {
		return stmt
	}
	stmt, err := s.from.PrepareContext(ctx, query)
	if err != nil {
		return nil // running the query returns the same error
	}
	s.cached[query] = stmt
	return stmt
}

// ExecContext executes a statement, prepared if possible.
func (s *statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := s.get(ctx, query); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return s.from.ExecContext(ctx, query, args...)
}

// QueryContext runs a query, prepared if possible.
func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := s.get(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return s.from.QueryContext(ctx, query, args...)
}

// QueryRowContext runs a query for one row, prepared if possible.
func (s *statements) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt := s.get(ctx, query); stmt != nil {
		return stmt.QueryRowContext(ctx, args...)
	}
	return s.from.QueryRowContext(ctx, query, args...)
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.cached {
		errs = append(errs, stmt.Close())
	}
	clear(s.cached)
	return errors.Join(errs...)
}
