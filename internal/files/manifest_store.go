package files

import (
	"context"
	"fmt"
	"hash/crc32"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// manifestStore opens the manifests of stored trees. It is safe for concurrent
// use.
type manifestStore struct {
	packs   *packStore
	zstdOut *zstd.Encoder // of roots and pages
	zstdIn  *zstd.Decoder
}

func newManifestStore(packs *packStore) (*manifestStore, error) {
	parallel := min(runtime.GOMAXPROCS(0), 4)
	out, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(parallel), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("preparing the compressor of manifests: %w", err)
	}
	in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(parallel), zstd.WithDecoderMaxMemory(maxRoot))
	if err != nil {
		return nil, fmt.Errorf("preparing the expander of manifests: %w", err)
	}
	return &manifestStore{packs: packs, zstdOut: out, zstdIn: in}, nil
}

// manifestOrEmpty opens a tree; that of "" is empty.
func (s *manifestStore) openOrEmpty(ctx context.Context, org, digest string) (*manifest, error) {
	if digest == "" {
		return &manifest{store: s, org: org, root: &root{}}, checkOrg(org)
	}
	return s.open(ctx, org, digest)
}

// describePage completes the record of a page, of which roots know no more than
// its stored form.
func (s *manifestStore) describePage(x segment, b []byte) (segment, error) {
	plain, err := s.zstdIn.DecodeAll(b, nil)
	if err != nil {
		return x, damaged(err)
	}
	x.raw, x.crc = uint32(len(plain)), crc32.ChecksumIEEE(plain)
	return x, nil
}
