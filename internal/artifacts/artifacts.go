// Package artifacts manages artifacts, volumes, and their versions.
//
// Artifacts and volumes are file sets. A file set has a name and versions, which are
// numbered 1, 2, 3 …. One of them is the current version: usually the newest, but a run
// that does not complete leaves its version beside it, and any version can be promoted.
// Package files stores the content of a version as a snapshot, which the version's digest
// identifies.
package artifacts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// Store is the part of store.Store that a Service needs.
type Store interface {
	store.FileSets
	RunState(ctx context.Context, id string) (status stint.Status, epoch int64, err error)
}

// Config contains the dependencies of a Service. All are required.
type Config struct {
	Store   Store
	Library *files.Library
	Quota   Quota
	IDs     *stint.IDs
	Now     func() time.Time
}

// Service manages artifacts and volumes. It is safe for concurrent use.
type Service struct{ c Config }

// New returns a service.
func New(c Config) *Service { return &Service{c} }

// Create creates an artifact or volume without a version.
func (s *Service) Create(ctx context.Context, c auth.Caller, kind stint.FileSetKind, name string) (stint.FileSet, error) {
	if e := stint.CheckName("name", name); e != nil {
		return stint.FileSet{}, e
	}
	now := stint.TimeOf(s.c.Now())
	t := stint.FileSet{ID: s.c.IDs.New(kind.Prefix()), Name: name, CreatedAt: now, UpdatedAt: now, Kind: kind}
	err := s.c.Store.CreateFileSet(ctx, store.FileSet{FileSet: t, OrgID: c.OrgID})
	if errors.Is(err, store.ErrExists) {
		return stint.FileSet{}, stint.AlreadyExists(string(kind), name)
	}
	if err != nil {
		return stint.FileSet{}, fmt.Errorf("create %s %s: %w", kind, name, err)
	}
	return t, nil
}

// Get returns an artifact or volume with its current version.
func (s *Service) Get(ctx context.Context, org string, kind stint.FileSetKind, id string) (stint.FileSetDetail, error) {
	t, err := s.fileSet(ctx, org, kind, id)
	if err != nil || t.CurrentVersionID == nil {
		return stint.FileSetDetail{FileSet: t}, err
	}
	head, err := s.c.Store.FileSetVersion(ctx, org, id, *t.CurrentVersionID, 0)
	if err != nil {
		return stint.FileSetDetail{}, fmt.Errorf("read head of %s %s: %w", kind, id, err)
	}
	return stint.FileSetDetail{FileSet: t, CurrentVersion: &head.FileSetVersion}, nil
}

func (s *Service) fileSet(ctx context.Context, org string, kind stint.FileSetKind, id string) (stint.FileSet, error) {
	t, err := store.Lookup(ctx, func(ctx context.Context, org, id string) (store.FileSet, error) {
		return s.c.Store.FileSet(ctx, org, kind, id)
	}, kind.Prefix(), org, id)
	return t.FileSet, err
}

// ByName returns the artifact or volume with the name.
func (s *Service) ByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (stint.FileSet, error) {
	if stint.CheckName("name", name) != nil {
		return stint.FileSet{}, stint.NotFound(string(kind), name)
	}
	t, err := s.c.Store.FileSetByName(ctx, org, kind, name)
	return t.FileSet, store.PublicError(err, string(kind), name)
}

// List returns a page of artifacts or volumes, newest first.
func (s *Service) List(ctx context.Context, org string, kind stint.FileSetKind, r store.Range) ([]stint.FileSet, error) {
	stored, err := s.c.Store.FileSets(ctx, org, kind, r)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind, err)
	}
	list := make([]stint.FileSet, len(stored))
	for i, t := range stored {
		list[i] = t.FileSet
	}
	return list, nil
}

// Delete deletes an artifact or volume with its versions. Its name can be reused. A
// version in a checkpoint stays readable through the checkpoint.
func (s *Service) Delete(ctx context.Context, c auth.Caller, kind stint.FileSetKind, id string) error {
	if !stint.IsID(kind.Prefix(), id) {
		return stint.NotFound(string(kind), id)
	}
	return store.PublicError(s.c.Store.DeleteFileSet(ctx, c.OrgID, kind, id, stint.TimeOf(s.c.Now())), string(kind), id)
}
