package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-dev/stint"
)

// Download is a snapshot as one file, with the same bytes each time. It serves
// one goroutine. Reads fail when the context that opened it ends.
type Download interface {
	io.ReadSeekCloser
	// Size returns the length of the file in bytes.
	Size() int64
}

// Downloads opens snapshots as archives. It is safe for concurrent use.
type downloads struct {
	manifests *manifestStore
	packs     *packStore
	plans     *recent[planKey, *archivePlan]
	sums      *recent[string, downloadSum] // by the key of the object that holds it
	asks      *recent[treeKey, int]        // full downloads of large archives
	wanted    chan treeKey                 // archives to be stored
	hashing   *limiter
}

type planKey struct {
	org, digest string
	format      Format
}

func newDownloads(m *manifestStore) *downloads {
	return &downloads{
		manifests: m,
		packs:     m.packs,
		plans:     newRecent[planKey, *archivePlan](16),
		sums:      newRecent[string, downloadSum](1024),
		asks:      newRecent[treeKey, int](4096),
		wanted:    make(chan treeKey, 16),
		hashing:   newLimiter(4),
	}
}

// Open opens a snapshot as a tar.gz, a tar or a zip. Every position can be
// sought at no cost, and nothing is compressed again. A tar.zst has no such
// positions: see WriteZstd. Reads fail when ctx ends.
func (d *downloads) Download(ctx context.Context, org, digest string, f Format) (Download, error) {
	var s archiveShape
	switch f {
	case TarGzip:
		s = tarGzipShape{}
	case Tar:
		s = tarShape{}
	case Zip:
		s = zipShape{}
	default:
		return nil, stint.InvalidParam("format", "A tree cannot be read as '%s' from any place.", f)
	}
	m, err := d.manifests.open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	if f == TarGzip {
		return openPlan(ctx, m, s, planTarGzip(m.root)), nil
	}
	key := planKey{org, digest, f}
	p, ok := d.plans.get(key)
	if !ok {
		if p, err = planArchive(ctx, m, s); err != nil {
			return nil, err
		}
		d.plans.put(key, p)
	}
	return openPlan(ctx, m, s, p), nil
}

// WriteZstd writes a snapshot as a tar.zst, compressed by one goroutine. Its
// length and bytes are not known beforehand.
func (d *downloads) WriteZstd(ctx context.Context, org, digest string, w io.Writer) (err error) {
	plain, err := d.Download(ctx, org, digest, Tar)
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
