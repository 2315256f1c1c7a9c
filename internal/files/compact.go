package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
)

// A compacted pack stands for a pack that is gone: some of its segments, one
// after the other, and a footer whose records keep their old offsets. So the
// places that manifests name stay true.

// compactor writes compacted packs. It serves one goroutine.
type compactor struct {
	packs  *packStore
	org    string
	expand expander
	raw    []byte
}

// write stores the segments, which source gives by their records, as a new
// generation of the pack, durably, and gives its key. Segments that are not what
// they should be are an error that wraps errCorrupt or errDamaged.
func (c *compactor) write(ctx context.Context, id string, segments []segment, source func(segment) ([]byte, error)) (key string, size int64, err error) {
	var data, records []byte
	for _, s := range segments {
		b, err := source(s)
		if err == nil {
			err = c.verify(s, b)
		}
		if err != nil {
			return "", 0, err
		}
		data = append(data, b...)
		records = s.append(records)
	}
	object := append(data, appendTrailer(records, compactedMagic)...)
	if key, err = c.nextKey(ctx, id); err != nil {
		return "", 0, err
	}
	if err := c.packs.writeTo(id).Put(ctx, key, bytes.NewReader(object), int64(len(object))); err != nil {
		return "", 0, fmt.Errorf("storing a compacted pack: %w", err)
	}
	return key, int64(len(object)), nil
}

func (c *compactor) nextKey(ctx context.Context, id string) (string, error) {
	first := packKey(c.org, id)
	later, err := laterGenerations(ctx, c.packs.Store, first)
	if err != nil {
		return "", err
	}
	n := 1
	if len(later) > 0 {
		n = later[0].n + 1
	}
	return generationKey(first, n), nil
}

// verify tells whether b is the segment that s describes.
func (c *compactor) verify(s segment, b []byte) error {
	if s.kind == pageSegment {
		if sha256.Sum256(b) != s.hash {
			return fmt.Errorf("a page: %w", errDamaged)
		}
		return nil
	}
	if s.raw > maxChunk {
		return errDamaged
	}
	c.raw = resized(c.raw, int(s.raw))
	if err := c.expand.chunk(c.raw, b, &chunk{hash: s.hash, raw: s.raw}); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(c.raw) != s.crc {
		return fmt.Errorf("%w: its checksum is wrong", errCorrupt)
	}
	return nil
}

// from gives a source of write that reads a pack in place.
func (c *compactor) from(ctx context.Context, f *packReader, id string) func(segment) ([]byte, error) {
	return func(s segment) ([]byte, error) {
		b := make([]byte, s.stored)
		return b, f.read(ctx, id, int64(s.offset), b)
	}
}
