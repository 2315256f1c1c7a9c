package app

import (
	"context"
	"fmt"
)

// logSecretNotices warns the operator once of each organisation whose runs received all
// stored secrets in an earlier release.
func (s *server) logSecretNotices(ctx context.Context) error {
	notices, err := s.db.SecretNotices(ctx)
	if err != nil {
		return fmt.Errorf("read the notices of secrets: %w", err)
	}
	for _, n := range notices {
		s.log.Warn("a run now receives only the stored secrets that its agent's definition names; 'stint secret check' prints which agents may miss which secret",
			"organisation", n.OrgName, "secrets", n.Secrets, "agents", n.Agents)
	}
	return nil
}
