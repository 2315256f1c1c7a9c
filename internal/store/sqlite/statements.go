package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// maxStatements bounds what is kept. The texts are few, but for lists by
// combinations of filters.
const maxStatements = 256

// source of statements: a database or a connection.
type preparer interface {
	sqlstore.Querier
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// statements prepares each text once. It is safe for concurrent use where its
// source is.
type statements struct {
	from preparer

	mu   sync.RWMutex // guards kept
	kept map[string]*sql.Stmt
}

func newStatements(from preparer) *statements {
	return &statements{from: from, kept: make(map[string]*sql.Stmt)}
}

// get is the prepared statement, or nil where the source must be asked itself:
// the text is wrong, or too many are kept.
func (s *statements) get(ctx context.Context, query string) *sql.Stmt {
	s.mu.RLock()
	stmt := s.kept[query]
	s.mu.RUnlock()
	if stmt != nil {
		return stmt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt := s.kept[query]; stmt != nil || len(s.kept) >= maxStatements {
		return stmt
	}
	stmt, err := s.from.PrepareContext(ctx, query)
	if err != nil {
		return nil // the source will say the same
	}
	s.kept[query] = stmt
	return stmt
}

// ExecContext is that of the source.
func (s *statements) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt := s.get(ctx, query); stmt != nil {
		return stmt.ExecContext(ctx, args...)
	}
	return s.from.ExecContext(ctx, query, args...)
}

// QueryContext is that of the source.
func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := s.get(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return s.from.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of the source.
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
	for _, stmt := range s.kept {
		errs = append(errs, stmt.Close())
	}
	clear(s.kept)
	return errors.Join(errs...)
}
