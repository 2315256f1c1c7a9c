package sqlite

import (
	"context"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// Do runs f in one transaction of the writer and returns the error of f or of the commit.
func (s *Store) Do(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) error {
	return s.writer.do(ctx, f)
}

// WriterStatements returns the texts of the statements that the writer has run.
func (s *Store) WriterStatements() []string { return s.writer.stmts.texts() }

// ReaderStatements returns the texts of the statements that the readers have run.
func (s *Store) ReaderStatements() []string { return s.reads.texts() }

func (stmts *statements) texts() []string {
	stmts.mu.RLock()
	defer stmts.mu.RUnlock()
	return slices.Sorted(maps.Keys(stmts.cached))
}
