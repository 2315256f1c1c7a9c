package artifacts

import (
	"context"
	"io"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// MissingChunks returns the given chunks that the caller's organisation has not stored.
func (s *Service) MissingChunks(ctx context.Context, c auth.Caller, chunks [][32]byte) ([][32]byte, error) {
	return s.c.Library.MissingChunks(ctx, c.OrgID, chunks)
}

// PutChunks stores chunks for a later push of a WireTree.
func (s *Service) PutChunks(ctx context.Context, c auth.Caller, r io.Reader) (files.PutResult, error) {
	return s.c.Library.PutChunks(ctx, c.OrgID, r)
}

// VersionContent is the content of a version in the encodings of package treewire.
type VersionContent struct {
	Digest  string
	org     string
	library *files.Library
}

// Content returns the content of a version. See Resolve for spec.
func (s *Service) Content(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (VersionContent, error) {
	v, err := s.Resolve(ctx, org, kind, id, spec)
	return VersionContent{v.Digest, org, s.c.Library}, err
}

// WriteTree writes the tree of the version to w. After an error the output is
// incomplete.
func (v VersionContent) WriteTree(ctx context.Context, w io.Writer) error {
	return v.library.WriteTree(ctx, v.org, v.Digest, w)
}

// WriteChunks writes the selected chunks of the version to w. After an error the output
// is incomplete.
func (v VersionContent) WriteChunks(ctx context.Context, s treewire.Selection, w io.Writer) error {
	return v.library.WriteChunks(ctx, v.org, v.Digest, s, w)
}
