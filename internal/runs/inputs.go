package runs

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
)

// checkInputs checks that all variables and secrets that the definition refers to have
// a value. Its error lists those that have none.
func (s *Service) checkInputs(ctx context.Context, org string, n *stint.NewRun, p *definition.Plan) error {
	var missing []definition.Reference
	secretMissing := false
	for _, r := range definition.AllReferences(&p.Definition) {
		values := p.Variables
		if r.Source == definition.FromSecrets {
			values = n.Secrets
		}
		if _, ok := values[r.Name]; !ok {
			missing = append(missing, r)
			secretMissing = secretMissing || r.Source == definition.FromSecrets
		}
	}
	stored := map[string]bool{} // names of the organisation's secrets
	if secretMissing {
		rows, err := s.c.Store.Secrets(ctx, org)
		if err != nil {
			return fmt.Errorf("list secrets: %w", err)
		}
		for _, row := range rows {
			stored[row.Name] = true
		}
	}
	var errs []*stint.Error
	for _, r := range missing {
		member := "variables"
		if r.Source == definition.FromSecrets {
			if stored[r.Name] {
				continue
			}
			member = "secrets"
		}
		errs = append(errs, stint.MissingParam(member+"."+r.Name, "The agent needs '%s.%s', which the request does not contain.", member, r.Name))
	}
	return stint.JoinErrors(errs...)
}
