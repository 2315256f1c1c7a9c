package sqlite

import (
	"context"

	"github.com/stint-dev/stint/internal/store/sqlstore"
)

// Do runs f as one transaction of the writer.
func (s *Store) Do(ctx context.Context, f func(ctx context.Context, q sqlstore.Querier) error) error {
	return s.writer.do(ctx, f)
}
