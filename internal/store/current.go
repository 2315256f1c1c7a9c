package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
)

// VersionReader is the part of a Store that NoCurrentVersion needs.
type VersionReader interface {
	FileSetVersions(ctx context.Context, org, set string, r Range) ([]FileSetVersion, error)
	RunState(ctx context.Context, id string) (status stint.Status, epoch int64, err error)
}

// NoCurrentVersion returns the error for an artifact or volume without a current version.
// If it has versions, the message names the newest one and how to use it.
func NoCurrentVersion(ctx context.Context, s VersionReader, org string, t stint.FileSet) error {
	versions, err := s.FileSetVersions(ctx, org, t.ID, Range{Limit: 1})
	if err != nil {
		return fmt.Errorf("read the newest version of %s %s: %w", t.Kind, t.ID, err)
	}
	none := &stint.Error{Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound}
	if len(versions) == 0 {
		none.Message = fmt.Sprintf("The %s '%s' has no version yet. Push files to it first.", t.Kind, t.Name)
		return none
	}
	v := versions[0]
	from := v.CreatedBy
	if run := v.Origin.RunID; run != nil {
		from = *run
		switch status, _, err := s.RunState(ctx, *run); {
		case err == nil:
			from += " (" + string(status) + ")"
		case !errors.Is(err, ErrNotFound):
			return fmt.Errorf("read the status of %s: %w", *run, err)
		}
	}
	none.Message = fmt.Sprintf("The %[1]s '%[2]s' has no current version; v%[3]d is from %[4]s. Name it as %[2]s@v%[3]d, or make it current with 'stint %[1]s promote %[2]s@v%[3]d'.",
		t.Kind, t.Name, v.Number, from)
	return none
}
