package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"

	"github.com/stint-dev/stint/internal/files/format"
)

// A compacted pack replaces a deleted pack. It holds some segments of the deleted
// pack, one after the other, and a footer with records that keep the old offsets. So
// the places in manifests remain valid.

// Compactor writes compacted packs. It is not safe for concurrent use.
type Compactor struct {
	Packs  *Store
	Org    string
	expand format.Expander
	raw    []byte
}

// Write stores segments of the pack id as a new generation of this pack. source must
// return the bytes of a segment. Write returns the key and the size in bytes of the
// new object. If a segment is invalid, the error wraps format.ErrCorrupt or
// format.ErrDamaged.
func (c *Compactor) Write(ctx context.Context, id string, segments []format.Segment, source func(format.Segment) ([]byte, error)) (key string, size int64, err error) {
	var data, records []byte
	for _, s := range segments {
		b, err := source(s)
		if err == nil {
			err = c.Verify(s, b)
		}
		if err != nil {
			return "", 0, err
		}
		data = append(data, b...)
		records = s.Append(records)
	}
	object := append(data, format.AppendTrailer(records, format.CompactedMagic)...)
	if key, err = c.nextKey(ctx, id); err != nil {
		return "", 0, err
	}
	if err := c.Packs.WriteTo(id).Put(ctx, key, bytes.NewReader(object), int64(len(object))); err != nil {
		return "", 0, fmt.Errorf("storing a compacted pack: %w", err)
	}
	return key, int64(len(object)), nil
}

func (c *Compactor) nextKey(ctx context.Context, id string) (string, error) {
	first := Key(c.Org, id)
	later, err := LaterGenerations(ctx, c.Packs.Store, first)
	if err != nil {
		return "", err
	}
	n := 1
	if len(later) > 0 {
		n = later[0].N + 1
	}
	return GenerationKey(first, n), nil
}

// Verify returns an error unless b is the segment that s describes.
func (c *Compactor) Verify(s format.Segment, b []byte) error {
	if s.Kind == format.PageSegment {
		if sha256.Sum256(b) != s.Hash {
			return fmt.Errorf("a page: %w", format.ErrDamaged)
		}
		return nil
	}
	if s.Size > format.MaxChunk {
		return format.ErrDamaged
	}
	c.raw = Resize(c.raw, int(s.Size))
	if err := c.expand.Expand(c.raw, b, &format.Chunk{Hash: s.Hash, Size: s.Size}); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(c.raw) != s.CRC {
		return fmt.Errorf("%w: its checksum is wrong", format.ErrCorrupt)
	}
	return nil
}

// From returns a source for Write that reads the segments of the pack id through f.
func (c *Compactor) From(ctx context.Context, f *Reader, id string) func(format.Segment) ([]byte, error) {
	return func(s format.Segment) ([]byte, error) {
		b := make([]byte, s.Length)
		return b, f.Read(ctx, id, int64(s.Offset), b)
	}
}
