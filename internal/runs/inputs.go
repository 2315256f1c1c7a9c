package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// checkInputs checks that all variables and secrets that the definition refers to have
// a value. Its error lists those that have none.
func (s *Service) checkInputs(ctx context.Context, org string, n *stint.NewRun, agent string, p *definition.Plan) error {
	var without []definition.Reference
	secretMissing := false
	for _, r := range definition.AllReferences(&p.Definition) {
		values := p.Variables
		if r.Source == definition.FromSecrets {
			values = n.Secrets
		}
		if _, ok := values[r.Name]; !ok {
			without = append(without, r)
			secretMissing = secretMissing || r.Source == definition.FromSecrets
		}
	}
	var stored []store.Secret
	if secretMissing {
		var err error
		if stored, err = s.c.Store.Secrets(ctx, org); err != nil {
			return fmt.Errorf("list secrets: %w", err)
		}
	}
	var errs []*stint.Error
	for _, r := range without {
		if r.Source == definition.FromSecrets {
			errs = append(errs, checkStored(stored, r.Name, agent, p))
		} else {
			errs = append(errs, missing("variables", r.Name))
		}
	}
	return stint.JoinErrors(errs...)
}

func missing(member, name string) *stint.Error {
	return stint.MissingParam(member+"."+name, "The agent needs '%s.%s', which the request does not contain.", member, name)
}

// checkStored returns an error if the run cannot receive a stored secret.
func checkStored(stored []store.Secret, name, agent string, p *definition.Plan) *stint.Error {
	i := slices.IndexFunc(stored, func(s store.Secret) bool { return s.Name == name })
	if i < 0 {
		return missing("secrets", name)
	}
	if e := p.CheckSecret(&stored[i].Secret, agent); e != nil {
		return stint.MissingParam("secrets."+name, "The agent needs 'secrets.%s', which the request does not contain. %s", name, e.Message)
	}
	return nil
}
