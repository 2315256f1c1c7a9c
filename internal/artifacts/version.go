package artifacts

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// Versions returns a page of the versions of an artifact or volume, newest first.
func (s *Service) Versions(ctx context.Context, org string, kind stint.FileSetKind, id string, r store.Range) ([]stint.FileSetVersion, error) {
	if _, err := s.fileSet(ctx, org, kind, id); err != nil {
		return nil, err
	}
	stored, err := s.c.Store.FileSetVersions(ctx, org, id, r)
	if err != nil {
		return nil, fmt.Errorf("list versions of %s %s: %w", kind, id, err)
	}
	versions := make([]stint.FileSetVersion, len(stored))
	for i, v := range stored {
		versions[i] = v.FileSetVersion
	}
	return versions, nil
}

// Version returns a version. See Resolve for spec.
func (s *Service) Version(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (stint.FileSetVersion, error) {
	v, err := s.Resolve(ctx, org, kind, id, spec)
	return v.FileSetVersion, err
}

// Resolve returns a version of an artifact or volume by its reference; see
// stint.ParseVersion.
func (s *Service) Resolve(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (store.FileSetVersion, error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	return v, err
}

// locate returns an artifact or volume and one of its versions.
func (s *Service) locate(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (stint.FileSet, store.FileSetVersion, error) {
	t, err := s.fileSet(ctx, org, kind, id)
	if err != nil {
		return stint.FileSet{}, store.FileSetVersion{}, err
	}
	versionID, number, ok := stint.ParseVersion(spec, stint.IsFileSetVersion)
	if !ok {
		return stint.FileSet{}, store.FileSetVersion{}, stint.NotFound(string(kind)+" version", spec)
	}
	if versionID == "" && number == 0 {
		if t.CurrentVersionID == nil {
			return stint.FileSet{}, store.FileSetVersion{}, store.NoCurrentVersion(ctx, s.c.Store, org, t)
		}
		versionID = *t.CurrentVersionID
	}
	v, err := s.c.Store.FileSetVersion(ctx, org, id, versionID, number)
	return t, v, store.PublicError(err, string(kind)+" version", spec)
}

// Promote makes a version the current one. If ifMatch is not empty and is not the ID of
// the current version, Promote returns an error with the code version_conflict.
func (s *Service) Promote(ctx context.Context, c auth.Caller, kind stint.FileSetKind, id, spec, ifMatch string) (stint.FileSetVersion, error) {
	t, v, err := s.locate(ctx, c.OrgID, kind, id, spec)
	if err != nil {
		return stint.FileSetVersion{}, err
	}
	var head *string
	if ifMatch != "" {
		head = &ifMatch
	}
	promoted, err := s.c.Store.PromoteVersion(ctx, c.OrgID, id, v.ID, head, stint.TimeOf(s.c.Now()))
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		return stint.FileSetVersion{}, versionConflict(t, conflict.Head)
	}
	return promoted.FileSetVersion, store.PublicError(err, string(kind)+" version", spec)
}

// Files returns a page of a version's entries in path order. more reports whether
// there are further entries.
func (s *Service) Files(ctx context.Context, org string, kind stint.FileSetKind, id, spec string, p FilePage) (page []stint.FileEntry, more bool, err error) {
	v, err := s.Resolve(ctx, org, kind, id, spec)
	if err != nil {
		return nil, false, err
	}
	return s.c.Library.List(ctx, org, v.Digest, p.Prefix, p.After, p.Limit)
}

// FilePage selects entries of a version.
type FilePage struct {
	Prefix string // common prefix of the paths; empty for all
	After  string // only paths after this one; empty for the first page
	Limit  int
}

// Open opens a file of a version. The caller closes it.
func (s *Service) Open(ctx context.Context, org string, kind stint.FileSetKind, id, spec, path string) (files.File, stint.FileEntry, error) {
	v, err := s.Resolve(ctx, org, kind, id, spec)
	if err != nil {
		return nil, stint.FileEntry{}, err
	}
	return s.c.Library.Open(ctx, org, v.Digest, path)
}

// Diff returns a page of at most limit changes between two versions, in path order,
// starting after the path after. more reports whether there are further changes.
func (s *Service) Diff(ctx context.Context, org string, kind stint.FileSetKind, id, from, to, after string, limit int) (page []stint.FileChange, more bool, err error) {
	a, b, err := s.digests(ctx, org, kind, id, from, to)
	if err != nil {
		return nil, false, err
	}
	return s.c.Library.Diff(ctx, org, a, b, after, limit)
}

// TextDiff returns a unified diff of one file in two versions.
func (s *Service) TextDiff(ctx context.Context, org string, kind stint.FileSetKind, id, from, to, path string) (string, error) {
	a, b, err := s.digests(ctx, org, kind, id, from, to)
	if err != nil {
		return "", err
	}
	return s.c.Library.TextDiff(ctx, org, a, b, path)
}

// digests returns the digests of two versions.
func (s *Service) digests(ctx context.Context, org string, kind stint.FileSetKind, id, from, to string) (a, b string, err error) {
	x, err := s.Resolve(ctx, org, kind, id, from)
	if err != nil {
		return "", "", err
	}
	y, err := s.Resolve(ctx, org, kind, id, to)
	return x.Digest, y.Digest, err
}
