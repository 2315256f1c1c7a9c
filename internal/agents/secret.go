package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// checkSecrets returns an error if a definition uses stored secrets in a way that they do
// not allow, or that the caller may not add. It returns a warning for each secret that is
// not stored. previous returns the definition of the current version; it is nil for a new
// agent.
func (s *Service) checkSecrets(ctx context.Context, c auth.Caller, agent string, d *stint.Definition, previous func() (*stint.Definition, error)) ([]stint.Warning, error) {
	names := slices.Compact(definition.SecretNames(d))
	if len(names) == 0 {
		return nil, nil
	}
	rows, err := s.store.Secrets(ctx, c.OrgID)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row store.Secret) bool { return !slices.Contains(names, row.Name) })
	return warnOfMissing(d, names, rows), checkStored(c, agent, d, rows, previous)
}

// warnOfMissing returns a warning for each name that is not the name of a stored secret.
func warnOfMissing(d *stint.Definition, names []string, rows []store.Secret) (warnings []stint.Warning) {
	for _, name := range names {
		if !slices.ContainsFunc(rows, func(row store.Secret) bool { return row.Name == name }) {
			warnings = append(warnings, stint.Warning{Param: definition.SecretParam(d, name), Message: fmt.Sprintf(
				"No secret named '%s' is stored. Store it with 'stint secret set %s' before a run needs it, or give it with each run.", name, name)})
		}
	}
	return warnings
}

// checkStored returns the error of checkSecrets. rows contains the stored secrets that the
// definition names.
func checkStored(c auth.Caller, agent string, d *stint.Definition, rows []store.Secret, previous func() (*stint.Definition, error)) (err error) {
	var errs []error
	for i := range rows {
		errs = append(errs, checkSecret(d, &rows[i].Secret, agent))
	}
	if err := joinErrors(errs); err != nil || c.Can(stint.ScopeAdmin) {
		return err
	}
	var current *stint.Definition
	if previous != nil {
		if current, err = previous(); err != nil {
			return err
		}
	}
	for i := range rows {
		errs = append(errs, checkExtension(d, current, &rows[i].Secret, agent))
	}
	return joinErrors(errs)
}

// joinErrors joins public errors. If one of the errors is not public, it returns this one.
func joinErrors(errs []error) error {
	var public []*stint.Error
	for _, err := range errs {
		if err == nil {
			continue
		}
		e, ok := err.(*stint.Error) //nolint:errorlint // functions of this file and of package definition do not wrap
		if !ok {
			return err
		}
		public = append(public, e)
	}
	return stint.JoinErrors(public...)
}

// checkSecret returns an error if a stored secret does not allow the uses in a definition.
func checkSecret(d *stint.Definition, secret *stint.Secret, agent string) error {
	if !secret.IsFor(agent) {
		return stint.InvalidParam(definition.SecretParam(d, secret.Name), "The stored secret '%s' is only for the agents %s, not for '%s'. Remove it from the definition, or let an administrator add the agent with 'stint secret set %s --agents'.",
			secret.Name, strings.Join(secret.Agents, ", "), agent, secret.Name)
	}
	if len(secret.Hosts) == 0 {
		return nil
	}
	restricted := *d
	return definition.RestrictSecret(&restricted, secret.Name, secret.Hosts)
}

// checkExtension returns an error if a definition extends the use of a stored secret that
// limits neither its hosts nor its agents. Only an administrator may push it.
func checkExtension(d, current *stint.Definition, secret *stint.Secret, agent string) error {
	if len(secret.Hosts) > 0 || slices.Contains(secret.Agents, agent) || !definition.ExtendsSecret(d, current, secret.Name) {
		return nil
	}
	return &stint.Error{
		Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope, Param: definition.SecretParam(d, secret.Name),
		Message: fmt.Sprintf("This version newly uses the stored secret '%s', which is not limited to hosts. Pushing it needs a token with the scope 'admin'. Or let an administrator limit the secret: 'stint secret set %s --hosts HOST' or '--agents %s'.",
			secret.Name, secret.Name, agent),
	}
}
