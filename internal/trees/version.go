package trees

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/content"
	"github.com/stint-dev/stint/internal/store"
)

// Latest is the specifier of a tree's head.
const Latest = "latest"

// Versions reads a page of a tree's versions, newest first.
func (s *Service) Versions(ctx context.Context, org string, kind stint.TreeKind, id string, r store.Range) ([]stint.TreeVersion, error) {
	if _, err := s.tree(ctx, org, kind, id); err != nil {
		return nil, err
	}
	stored, err := s.store.TreeVersions(ctx, org, id, r)
	if err != nil {
		return nil, fmt.Errorf("list versions of %s %s: %w", kind, id, err)
	}
	versions := make([]stint.TreeVersion, len(stored))
	for i, v := range stored {
		versions[i] = v.TreeVersion
	}
	return versions, nil
}

// Version reads one version; spec is what Resolve takes.
func (s *Service) Version(ctx context.Context, org string, kind stint.TreeKind, id, spec string) (stint.TreeVersion, error) {
	v, err := s.Resolve(ctx, org, kind, id, spec)
	return v.TreeVersion, err
}

// Resolve finds a version of a tree by its specifier: latest (also when
// empty), an identifier, v<N> or <N>.
func (s *Service) Resolve(ctx context.Context, org string, kind stint.TreeKind, id, spec string) (store.TreeVersion, error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	return v, err
}

// locate finds a tree and a version of it.
func (s *Service) locate(ctx context.Context, org string, kind stint.TreeKind, id, spec string) (stint.Tree, store.TreeVersion, error) {
	t, err := s.tree(ctx, org, kind, id)
	if err != nil {
		return stint.Tree{}, store.TreeVersion{}, err
	}
	versionID, number, ok := parseSpec(spec)
	if versionID == "" && number == 0 {
		if t.CurrentVersionID == nil {
			return stint.Tree{}, store.TreeVersion{}, &stint.Error{
				Kind: stint.NotFound, Code: stint.CodeResourceNotFound,
				Message: fmt.Sprintf("The %s '%s' has no version yet. Push files to it first.", kind, t.Name),
			}
		}
		versionID = *t.CurrentVersionID
	}
	if !ok {
		return stint.Tree{}, store.TreeVersion{}, stint.NoSuch(string(kind)+" version", spec)
	}
	v, err := s.store.TreeVersion(ctx, org, id, versionID, number)
	if errors.Is(err, store.ErrNotFound) {
		return stint.Tree{}, store.TreeVersion{}, stint.NoSuch(string(kind)+" version", spec)
	}
	if err != nil {
		return stint.Tree{}, store.TreeVersion{}, fmt.Errorf("read version %q of %s %s: %w", spec, kind, id, err)
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

// Files reads a page of a version's entries in path order, those after the
// given path; more tells whether there are further ones.
func (s *Service) Files(ctx context.Context, org string, kind stint.TreeKind, id, spec, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, false, err
	}
	return s.library.Files(ctx, org, v.Digest, after, limit)
}

// Open opens a file of a version. The caller closes it.
func (s *Service) Open(ctx context.Context, org string, kind stint.TreeKind, id, spec, path string) (content.File, stint.FileEntry, error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, stint.FileEntry{}, err
	}
	return s.library.Open(ctx, org, v.Digest, path)
}

// Diff tells what changed between two versions of a tree.
func (s *Service) Diff(ctx context.Context, org string, kind stint.TreeKind, id, from, to string) ([]stint.FileChange, error) {
	_, a, err := s.locate(ctx, org, kind, id, from)
	if err != nil {
		return nil, err
	}
	_, b, err := s.locate(ctx, org, kind, id, to)
	if err != nil {
		return nil, err
	}
	return s.library.Diff(ctx, org, a.Digest, b.Digest)
}

// Archive opens a version as a tar.gz, together with the name of its tree. The
// same version always gives the same bytes. The caller closes it.
func (s *Service) Archive(ctx context.Context, org string, kind stint.TreeKind, id, spec string) (*content.Archive, Archived, error) {
	t, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, Archived{}, err
	}
	a, err := s.library.Archive(ctx, org, v.Digest)
	if err != nil {
		return nil, Archived{}, err
	}
	return a, Archived{Tree: t, Version: v}, nil
}

// Archived says which version an archive holds.
type Archived struct {
	Tree    stint.Tree
	Version store.TreeVersion
}
