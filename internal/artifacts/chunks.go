package artifacts

import (
	"context"
	"io"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// ChunkExchange is the part of a Library that receives and sends single chunks.
type ChunkExchange interface {
	MissingChunks(ctx context.Context, org string, chunks [][32]byte) ([][32]byte, error)
	PutChunks(ctx context.Context, org string, r io.Reader) (files.PutResult, error)
	CommitEntries(ctx context.Context, org, parent string, r io.Reader) (files.Ref, error)
	WriteTree(ctx context.Context, org, digest string, w io.Writer) error
	WriteChunks(ctx context.Context, org, digest string, s treewire.Selection, w io.Writer) error
}

// MissingChunks returns those of the chunks that the caller's organisation lacks.
func (s *Service) MissingChunks(ctx context.Context, c auth.Caller, chunks [][32]byte) ([][32]byte, error) {
	return s.library.MissingChunks(ctx, c.OrgID, chunks)
}

// PutChunks stores chunks for a later push of a WireTree.
func (s *Service) PutChunks(ctx context.Context, c auth.Caller, r io.Reader) (files.PutResult, error) {
	return s.library.PutChunks(ctx, c.OrgID, r)
}

// VersionContent is the content of a version in the encodings of package treewire.
type VersionContent struct {
	Digest string
	// WriteTree and WriteChunks write to w. After an error the output is
	// incomplete.
	WriteTree   func(ctx context.Context, w io.Writer) error
	WriteChunks func(ctx context.Context, s treewire.Selection, w io.Writer) error
}

// Content returns the content of a version. See Resolve for spec.
func (s *Service) Content(ctx context.Context, org string, kind stint.FileSetKind, id, spec string) (VersionContent, error) {
	_, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return VersionContent{}, err
	}
	return VersionContent{
		Digest: v.Digest,
		WriteTree: func(ctx context.Context, w io.Writer) error {
			return s.library.WriteTree(ctx, org, v.Digest, w)
		},
		WriteChunks: func(ctx context.Context, selection treewire.Selection, w io.Writer) error {
			return s.library.WriteChunks(ctx, org, v.Digest, selection, w)
		},
	}, nil
}
