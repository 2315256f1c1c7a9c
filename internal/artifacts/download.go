package artifacts

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// VersionArchive is a version as an archive. All downloads of a version in one format
// have the same bytes, except in the format tar.zst.
type VersionArchive struct {
	FileSet stint.FileSet
	Version store.FileSetVersion
	Format  files.Format
	s       *Service
	org     string
}

// Archive returns a version as an archive of format f.
func (s *Service) Archive(ctx context.Context, org string, kind stint.FileSetKind, id, spec string, f files.Format) (*VersionArchive, error) {
	t, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, err
	}
	return &VersionArchive{FileSet: t, Version: v, Format: f, s: s, org: org}, nil
}

// Name returns the file name of the archive.
func (a *VersionArchive) Name() string {
	return fmt.Sprintf("%s-v%d.%s", a.FileSet.Name, a.Version.Number, a.Format)
}

// Open opens the archive. The format must not be tar.zst. The caller closes the archive.
func (a *VersionArchive) Open(ctx context.Context) (files.Download, error) {
	return a.s.c.Library.Download(ctx, a.org, a.Version.Digest, a.Format)
}

// WriteZstd writes the version as a tar.zst.
func (a *VersionArchive) WriteZstd(ctx context.Context, w io.Writer) error {
	return a.s.c.Library.WriteZstd(ctx, a.org, a.Version.Digest, w)
}

// Sum returns the SHA-256 of the archive of size bytes. known reports whether the
// SHA-256 is known. If it is not stored and compute is set, Sum reads the whole archive
// to compute it.
func (a *VersionArchive) Sum(ctx context.Context, size int64, compute bool) (sum [32]byte, known bool, err error) {
	return a.s.c.Library.DownloadSum(ctx, a.org, a.Version.Digest, a.Format, size, compute)
}

// CountDownload records a download of the whole archive of size bytes. Only downloads in
// the format tar.gz are counted; popular archives of this format are stored.
func (a *VersionArchive) CountDownload(size int64) {
	if a.Format == files.TarGzip {
		a.s.c.Library.CountDownload(a.org, a.Version.Digest, size)
	}
}

// DirectLink returns a URL from which the storage serves the archive for the time ttl.
// ok is false if the storage does not contain the archive or cannot serve it.
func (a *VersionArchive) DirectLink(ctx context.Context, ttl time.Duration) (address string, ok bool, err error) {
	if a.Format != files.TarGzip {
		return "", false, nil
	}
	return a.s.c.Library.DirectLink(ctx, a.org, a.Version.Digest, a.Name(), ttl)
}
