package artifacts

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/store"
)

// Quota reports the storage usage of organisations. *quota.Store implements it.
type Quota interface {
	Usage(ctx context.Context, org string) (blob.Usage, error)
	Limit() int64
}

// DeleteVersion deletes a version; garbage collection deletes its bytes later. It
// refuses to delete the current version, a version in a checkpoint or in an open
// run, and a version that is marked to be kept.
func (s *Service) DeleteVersion(ctx context.Context, c auth.Caller, kind stint.FileSetKind, id, spec string) error {
	v, err := s.Resolve(ctx, c.OrgID, kind, id, spec)
	if err != nil {
		return err
	}
	err = s.c.Store.DeleteVersion(ctx, c.OrgID, id, v.ID)
	if used, ok := errors.AsType[store.InUseError](err); ok {
		return stint.InvalidState("The version '%s' is in use: %s.", v.ID, uses[used.Use])
	}
	return store.PublicError(err, string(kind)+" version", spec)
}

// uses contains the reasons for which a version cannot be deleted, and remedies.
var uses = map[store.Use]string{
	store.UseHead:       "it is the current version. Push or promote another version first",
	store.UseCheckpoint: "a checkpoint contains it. Runs that resume from the checkpoint need it",
	store.UseRun:        "an active run uses it. Wait for the end of the run, or cancel it",
	store.UseKept:       "it is marked to be kept. Remove the mark first",
}

// KeepVersion marks a version so that retention rules do not delete it, or removes
// the mark.
func (s *Service) KeepVersion(ctx context.Context, c auth.Caller, kind stint.FileSetKind, id, spec string, keep bool) error {
	v, err := s.Resolve(ctx, c.OrgID, kind, id, spec)
	if err != nil {
		return err
	}
	return store.PublicError(s.c.Store.KeepVersion(ctx, c.OrgID, id, v.ID, keep, stint.TimeOf(s.c.Now())), string(kind)+" version", spec)
}

// Usage returns the storage usage and the limit of an organisation.
func (s *Service) Usage(ctx context.Context, org string) (stint.StorageUsage, error) {
	rows, err := s.c.Store.StorageUsage(ctx, org)
	if err != nil {
		return stint.StorageUsage{}, fmt.Errorf("count artifacts and volumes: %w", err)
	}
	used, err := s.c.Quota.Usage(ctx, org)
	if err != nil {
		return stint.StorageUsage{}, err
	}
	u := stint.StorageUsage{
		StoredBytes: used.Bytes, StoredObjects: used.Objects,
		Artifacts: rows.Artifacts, Volumes: rows.Volumes, Versions: rows.Versions, Checkpoints: rows.Checkpoints, VersionBytes: rows.Bytes,
	}
	if limit := s.c.Quota.Limit(); limit > 0 {
		u.LimitBytes = &limit
	}
	return u, nil
}
