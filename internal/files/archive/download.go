package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limiter"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/lru"
)

// Download is a snapshot in the form of one archive file. Further downloads of the
// stored snapshot in the same format have the same bytes. A Download must not be
// used concurrently. Reads fail after the end of the context it was opened with.
type Download interface {
	io.ReadSeekCloser
	// Size returns the length of the file in bytes.
	Size() int64
}

// Downloads opens snapshots as archives. It is safe for concurrent use.
type Downloads struct {
	manifests *manifest.Store
	packs     *pack.Store
	plans     *lru.Cache[planKey, *plan]
	sums      *lru.Cache[string, downloadSum] // by the key of the object that stores the sum
	downloads *lru.Cache[treeKey, int]        // number of full downloads of large archives
	queue     chan treeKey                    // archives to be stored
	hashing   *limiter.Limiter
}

type planKey struct {
	org, digest string
	format      format.Format
}

// New returns a Downloads that serves the snapshots in m.
func New(m *manifest.Store) *Downloads {
	return &Downloads{
		manifests: m,
		packs:     m.Packs,
		plans:     lru.New[planKey, *plan](16),
		sums:      lru.New[string, downloadSum](1024),
		downloads: lru.New[treeKey, int](4096),
		queue:     make(chan treeKey, 16),
		hashing:   limiter.New(4),
	}
}

// Download opens a snapshot as a tar.gz, a tar, or a zip. Seeking is cheap, and
// nothing is compressed again. Other formats are an error; for a tar.zst, which does
// not support seeking, use WriteZstd. Reads fail after ctx ends.
func (d *Downloads) Download(ctx context.Context, org, digest string, f format.Format) (Download, error) {
	var s shape
	switch f {
	case format.TarGzip:
		s = tarGzipShape{}
	case format.Tar:
		s = tarShape{}
	case format.Zip:
		s = zipShape{}
	default:
		return nil, stint.InvalidParam("format", "A tree cannot be downloaded as '%s'.", f)
	}
	m, err := d.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	if f == format.TarGzip {
		return openPlan(ctx, m, s, planTarGzip(m.Root)), nil
	}
	key := planKey{org, digest, f}
	p, ok := d.plans.Get(key)
	if !ok {
		if p, err = newPlan(ctx, m, s); err != nil {
			return nil, err
		}
		d.plans.Put(key, p)
	}
	return openPlan(ctx, m, s, p), nil
}

// WriteZstd writes a snapshot to w as a tar.zst, compressed by one goroutine. The
// length and the hash of the file are not known beforehand.
func (d *Downloads) WriteZstd(ctx context.Context, org, digest string, w io.Writer) (err error) {
	plain, err := d.Download(ctx, org, digest, format.Tar)
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
