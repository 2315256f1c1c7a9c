package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-dev/stint"
)

// Zip is a format that trees are downloaded in; CommitArchive does not read it.
const Zip Format = "zip"

// Download is a tree as one file, the same bytes each time. It serves one
// goroutine; reads end when the context that opened it does.
type Download interface {
	io.ReadSeekCloser
	// Size is the length of the whole, in bytes.
	Size() int64
}

// Download opens a tree as a tar.gz, a tar or a zip. Any place of it can be
// sought and nothing is compressed for it. A tar.zst has no such places: see
// WriteZstd.
func (l *Library) Download(ctx context.Context, org, digest string, f Format) (Download, error) {
	var s archiveShape
	switch f {
	case TarGzip:
		return l.Archive(ctx, org, digest)
	case Tar:
		s = tarShape{}
	case Zip:
		s = zipShape{}
	default:
		return nil, stint.InvalidParam("format", "A tree cannot be read as '%s' from any place.", f)
	}
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	key := planKey{org, digest, f}
	p, ok := l.caches.plans.get(key)
	if !ok {
		if p, err = planArchive(ctx, m, s); err != nil {
			return nil, err
		}
		l.caches.plans.put(key, p)
	}
	return newAssembly(ctx, m, s, p), nil
}

// WriteZstd writes a tree as a tar.zst, which is compressed as it goes, by one
// goroutine: its length and its bytes are not known beforehand.
func (l *Library) WriteZstd(ctx context.Context, org, digest string, w io.Writer) (err error) {
	plain, err := l.Download(ctx, org, digest, Tar)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return fmt.Errorf("preparing a compressor: %w", err)
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{z}, struct{ io.Reader }{plain}, make([]byte, 256<<10)); err != nil {
		return fmt.Errorf("writing a tar.zst: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("writing a tar.zst: %w", err)
	}
	return nil
}

// reads is what a library remembers of what was read. All of it can be made
// again.
type readCaches struct {
	plans   *recent[planKey, *archivePlan]
	sums    *recent[string, downloadSum] // by the key of the object that holds it
	renames *recent[diffKey, *renames]
	popular archiveCache

	hashing   *limiter // of archives
	comparing *limiter // of two texts each
}

type planKey struct {
	org, digest string
	format      Format
}

func newReadCaches() *readCaches {
	return &readCaches{
		plans:   newRecent[planKey, *archivePlan](16),
		sums:    newRecent[string, downloadSum](1024),
		renames: newRecent[diffKey, *renames](8),
		popular: newArchiveCache(),

		hashing:   newLimiter(4),
		comparing: newLimiter(2), // one takes seconds and much memory at worst
	}
}
