package sqlite

import (
	"context"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// Do runs f as one transaction of the writer.
func (s *Store) Do(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) error {
	return s.writer.do(ctx, f)
}

// Written lists the texts of the statements that went through the writer.
func (s *Store) Written() []string {
	kept := s.writer.stmts
	kept.mu.RLock()
	defer kept.mu.RUnlock()
	return slices.Sorted(maps.Keys(kept.kept))
}
