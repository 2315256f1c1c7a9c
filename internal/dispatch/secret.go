package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/store"
)

// openStored sets the stored secrets of an assignment: those that the definition names
// and the request does not contain. It limits the definition's hosts to those of the
// secrets. It returns an error if the run may not use a secret, or if all secrets of the
// run together exceed the limits of masking.
func (l *Local) openStored(ctx context.Context, a *Assignment) error {
	named := definition.SecretNames(&a.Plan.Definition)
	named = slices.DeleteFunc(named, func(name string) bool { _, given := a.Given[name]; return given })
	if len(named) == 0 && !a.Plan.UnnamedSecrets {
		return nil
	}
	rows, err := l.c.Store.Secrets(ctx, a.OrgID)
	if err != nil {
		return fmt.Errorf("read stored secrets: %w", err)
	}
	stored := make(map[string]string, len(named))
	for i := range rows {
		name := rows[i].Name
		if slices.Contains(named, name) {
			if stored[name], err = l.openSecret(&rows[i], a); err != nil {
				return err
			}
		} else if _, given := a.Given[name]; a.Plan.UnnamedSecrets && rows[i].Unnamed && !given && rows[i].IsFor(a.Run.AgentName) {
			a.Unnamed = append(a.Unnamed, name)
		}
	}
	for _, name := range named {
		if _, ok := stored[name]; !ok {
			return stint.InvalidState("The agent needs the secret '%s', which was deleted after the run was created. Store it again, or create the run with it.", name)
		}
	}
	if masking.CheckLimits("secrets", slices.Concat(slices.Collect(maps.Values(stored)), slices.Collect(maps.Values(a.Given)))) != nil {
		return stint.InvalidState("The stored secrets that the agent's definition names and those of the run exceed the limit of %d secrets with %d bytes in total. Remove some of them.",
			masking.MaxValues, masking.MaxTotalSize)
	}
	a.Stored = stored
	return nil
}

// openSecret returns the value of a stored secret that the definition names.
func (l *Local) openSecret(row *store.Secret, a *Assignment) (string, error) {
	if e := a.Plan.CheckSecret(&row.Secret, a.Run.AgentName); e != nil {
		return "", e
	}
	if len(row.Hosts) > 0 {
		if err := definition.RestrictSecret(&a.Plan.Definition, row.Name, row.Hosts); err != nil {
			return "", err
		}
	}
	value, err := l.c.Sealer.Open(row.Sealed, row.AssociatedData())
	if err != nil {
		return "", fmt.Errorf("open stored secret %s: %w", row.Name, err)
	}
	return string(value), nil
}
