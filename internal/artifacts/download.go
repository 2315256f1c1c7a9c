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

// VersionArchive is a version as one file of some format. The same version always
// gives the same bytes, a tar.zst excepted.
type VersionArchive struct {
	FileSet stint.FileSet
	Version store.FileSetVersion
	Format  files.Format
	s       *Service
	org     string
}

// Archive finds a version that is to be downloaded.
func (s *Service) Archive(ctx context.Context, org string, kind stint.FileSetKind, id, spec string, f files.Format) (*VersionArchive, error) {
	t, v, err := s.locate(ctx, org, kind, id, spec)
	if err != nil {
		return nil, err
	}
	return &VersionArchive{FileSet: t, Version: v, Format: f, s: s, org: org}, nil
}

// Name is what the file is called where it is stored.
func (a *VersionArchive) Name() string {
	return fmt.Sprintf("%s-v%d.%s", a.FileSet.Name, a.Version.Number, a.Format)
}

// Open opens the file, of any format but tar.zst. The caller closes it.
func (a *VersionArchive) Open(ctx context.Context) (files.Download, error) {
	return a.s.library.Download(ctx, a.org, a.Version.Digest, a.Format)
}

// WriteZstd writes the version as a tar.zst.
func (a *VersionArchive) WriteZstd(ctx context.Context, w io.Writer) error {
	return a.s.library.WriteZstd(ctx, a.org, a.Version.Digest, w)
}

// Sum gives the SHA-256 of the file, which has that size, if it is known; with
// compute it is made known, which may mean to read everything once.
func (a *VersionArchive) Sum(ctx context.Context, size int64, compute bool) (sum [32]byte, known bool, err error) {
	return a.s.library.DownloadSum(ctx, a.org, a.Version.Digest, a.Format, size, compute)
}

// CountDownload tells that the file, of size bytes, is being served as a whole.
func (a *VersionArchive) CountDownload(size int64) {
	if a.Format == files.TarGzip {
		a.s.library.CountDownload(a.org, a.Version.Digest, size)
	}
}

// DirectLink gives an address that serves the file for ttl without us, where
// there is one.
func (a *VersionArchive) DirectLink(ctx context.Context, ttl time.Duration) (address string, ok bool, err error) {
	if a.Format != files.TarGzip {
		return "", false, nil
	}
	return a.s.library.DirectLink(ctx, a.org, a.Version.Digest, a.Name(), ttl)
}
