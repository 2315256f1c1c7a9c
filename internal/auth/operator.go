package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// IsOperator reports whether the caller may see numbers of the whole installation: it is an
// owner of the first organisation and its token has the scope admin.
func (s *Service) IsOperator(ctx context.Context, c Caller) (bool, error) {
	if c.RunID != "" || c.Role != RoleOwner || !c.Can(stint.ScopeAdmin) {
		return false, nil
	}
	first := s.firstOrg.Load()
	if first == nil {
		id, err := s.store.FirstOrg(ctx)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the first organisation: %w", err)
		}
		first = &id
		s.firstOrg.Store(first) // organisations are never removed
	}
	return c.OrgID == *first, nil
}
