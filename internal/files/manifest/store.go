package manifest

import (
	"context"
	"fmt"
	"hash/crc32"
	"runtime"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Store opens the manifests of stored trees. It is safe for concurrent use.
type Store struct {
	Packs   *pack.Store
	ZstdOut *zstd.Encoder // compresses roots and pages
	zstdIn  *zstd.Decoder
}

// NewStore returns a store of the manifests in packs.
func NewStore(packs *pack.Store) (*Store, error) {
	parallel := min(runtime.GOMAXPROCS(0), 4)
	out, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(parallel), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("preparing the compressor of manifests: %w", err)
	}
	in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(parallel), zstd.WithDecoderMaxMemory(format.MaxRoot))
	if err != nil {
		return nil, fmt.Errorf("preparing the expander of manifests: %w", err)
	}
	return &Store{Packs: packs, ZstdOut: out, zstdIn: in}, nil
}

// OpenOrEmpty opens the tree with the digest. If digest is "", it returns an empty
// tree.
func (s *Store) OpenOrEmpty(ctx context.Context, org, digest string) (*Manifest, error) {
	if digest == "" {
		return &Manifest{Store: s, Org: org, Root: &format.Root{}}, pack.CheckOrg(org)
	}
	return s.Open(ctx, org, digest)
}

// DescribePage expands the stored page b and returns x with the fields Size and CRC
// of the page. x is the record of the page for a pack's footer; its other fields are
// known from the root, which does not contain these two values.
func (s *Store) DescribePage(x format.Segment, b []byte) (format.Segment, error) {
	plain, err := s.zstdIn.DecodeAll(b, nil)
	if err != nil {
		return x, format.Damaged(err)
	}
	x.Size, x.CRC = uint32(len(plain)), crc32.ChecksumIEEE(plain)
	return x, nil
}
