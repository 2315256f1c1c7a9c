package artifacts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// Latest is the specifier of a tree's head.
const Latest = "latest"

// Versions reads a page of a tree's versions, newest first.
func (s *Service) Versions(ctx context.Context, org string, kind stint.FileSetKind, id string, r store.Range) ([]stint.FileSetVersion, error) {
	if _, err := s.tree(ctx, org, kind, id); err != nil {
		return nil, err
	}
	stored, err := s.store.FileSetVersions(ctx, org, id, r)
	if err != nil {
		return nil, fmt.Errorf("list versions of %s %s: %w", kind, id, err)
	}
	versions := make([]stint.FileSetVersion, len(stored))
	for i, v := range stored {
		versions[i] = v.FileSetVersion
	}
	return versions, nil
}

// Version reads one version; spec is what Resolve takes.
func (s *Service) Version(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (stint.FileSetVersion, error) {
	v, err := s.Resolve(ctx, org, kind, id, spec)
	return v.FileSetVersion, err
}

// Resolve finds a version of a tree by its specifier: latest (also when
// empty), an identifier, v<N> or <N>.
func (s *Service) Resolve(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (store.FileSetVersion, error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	return v, err
}

// locate finds a tree and a version of it.
func (s *Service) locate(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (stint.FileSet, store.FileSetVersion, error) {
	t, err := s.tree(ctx, org, kind, id)
	if err != nil {
		return stint.FileSet{}, store.FileSetVersion{}, err
	}
	versionID, number, ok := parseSpec(spec)
	if versionID == "" && number == 0 {
		if t.CurrentVersionID == nil {
			return stint.FileSet{}, store.FileSetVersion{}, &stint.Error{
				Kind: stint.KindNotFound, Code: stint.CodeResourceNotFound,
				Message: fmt.Sprintf("The %s '%s' has no version yet. Push files to it first.", kind, t.Name),
			}
		}
		versionID = *t.CurrentVersionID
	}
	if !ok {
		return stint.FileSet{}, store.FileSetVersion{}, stint.NotFound(string(kind)+" version", spec)
	}
	v, err := s.store.FileSetVersion(ctx, org, id, versionID, number)
	if errors.Is(err, store.ErrNotFound) {
		return stint.FileSet{}, store.FileSetVersion{}, stint.NotFound(string(kind)+" version", spec)
	}
	if err != nil {
		return stint.FileSet{}, store.FileSetVersion{}, fmt.Errorf("read version %q of %s %s: %w", spec, kind, id, err)
	}
	return t, v, nil
}

// parseSpec takes a specifier apart; id and number are both zero for latest.
// ok is false for what no version can be called.
func parseSpec(spec string) (id string, number int64, ok bool) {
	if spec == "" || spec == Latest {
		return "", 0, true
	}
	digits, suffix, isID := strings.Cut(strings.TrimPrefix(spec, "v"), "_")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 1 || strconv.FormatInt(number, 10) != digits {
		return spec, 0, false
	}
	if !isID {
		return "", number, true
	}
	wellFormed := spec[0] == 'v' && len(suffix) == suffixSize && strings.Trim(suffix, suffixAlphabet) == ""
	return spec, 0, wellFormed
}

// Files reads a page of a version's entries in path order: those whose paths
// begin with prefix and come after the given path; more tells whether there
// are further ones.
func (s *Service) Files(ctx context.Context, org string, kind stint.FileSetKind, id, spec string, p FilePage) (page []stint.FileEntry, more bool, err error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, false, err
	}
	return s.library.ListPrefix(ctx, org, v.Digest, p.Prefix, p.After, p.Limit)
}

// FilePage says which entries of a version are wanted.
type FilePage struct {
	Prefix string // of their paths; empty for all
	After  string // the path before them; empty for the start
	Limit  int
}

// Open opens a file of a version. The caller closes it.
func (s *Service) Open(ctx context.Context, org string, kind stint.FileSetKind, id, spec, path string) (files.File, stint.FileEntry, error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, stint.FileEntry{}, err
	}
	return s.library.Open(ctx, org, v.Digest, path)
}

// Diff reads a page of what changed between two versions of a tree, in path
// order, after the given path; more tells whether there is further change.
func (s *Service) Diff(ctx context.Context, org string, kind stint.FileSetKind, id, from, to, after string, limit int) (page []stint.FileChange, more bool, err error) {
	a, b, err := s.both(ctx, org, kind, id, from, to)
	if err != nil {
		return nil, false, err
	}
	return s.library.Diff(ctx, org, a, b, after, limit)
}

// TextDiff compares one file of two versions line by line, as a unified diff.
func (s *Service) TextDiff(ctx context.Context, org string, kind stint.FileSetKind, id, from, to, path string) (string, error) {
	a, b, err := s.both(ctx, org, kind, id, from, to)
	if err != nil {
		return "", err
	}
	return s.library.TextDiff(ctx, org, a, b, path)
}

// both finds the digests of two versions.
func (s *Service) both(ctx context.Context, org string, kind stint.FileSetKind, id, from, to string) (a, b string, err error) {
	_, x, err := s.locate(ctx, org, kind, id, from)
	if err != nil {
		return "", "", err
	}
	_, y, err := s.locate(ctx, org, kind, id, to)
	return x.Digest, y.Digest, err
}
