package artifacts

import (
	"context"
	"io"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// ChunkExchange is the part of a library that takes and gives single chunks;
// *files.Library is one.
type ChunkExchange interface {
	MissingChunks(ctx context.Context, org string, chunks [][32]byte) ([][32]byte, error)
	PutChunks(ctx context.Context, org string, r io.Reader) (files.PutResult, error)
	CommitEntries(ctx context.Context, org, parent string, r io.Reader) (files.Ref, error)
	WriteTree(ctx context.Context, org, digest string, w io.Writer) error
	WriteChunks(ctx context.Context, org, digest string, s treewire.Selection, w io.Writer) error
}

// MissingChunks gives those of the chunks that the caller's organisation does
// not have.
func (s *Service) MissingChunks(ctx context.Context, c auth.Caller, chunks [][32]byte) ([][32]byte, error) {
	return s.library.MissingChunks(ctx, c.OrgID, chunks)
}

// PutChunks stores chunks for a PushTree to come.
func (s *Service) PutChunks(ctx context.Context, c auth.Caller, r io.Reader) (files.PutResult, error) {
	return s.library.PutChunks(ctx, c.OrgID, r)
}

// VersionContent is the content of a version as it travels.
type VersionContent struct {
	Digest string
	// WriteTree and WriteChunks write to w in the forms of package wire. After
	// an error w has a part of it.
	WriteTree   func(ctx context.Context, w io.Writer) error
	WriteChunks func(ctx context.Context, s treewire.Selection, w io.Writer) error
}

// Content finds the content of a version; spec is what Resolve takes.
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
