package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
)

// A compacted pack stands for a pack that is gone: some of its segments, one
// after the other, and a footer whose records keep their old offsets. So the
// places that manifests name stay true.

const compactedMagic = "stint-c2"

// decodeCompacted reads the footer of a compacted pack of size bytes, through
// read.
func decodeCompacted(size int64, read func(offset, n int64) ([]byte, error)) ([]segment, error) {
	b, begin, err := readRecords(size, compactedMagic, read)
	if err != nil {
		return nil, err
	}
	segments := make([]segment, 0, len(b)/footerRecord)
	before, total := int64(0), int64(0) // the end of the segment before, and the bytes of all
	for r := (&decoder{b: b}); len(r.b) > 0; {
		s := decodeSegment(r)
		if s.kind != chunkSegment && s.kind != pageSegment || int64(s.offset) < before {
			return nil, errDamaged
		}
		before = int64(s.offset) + int64(s.stored)
		total += int64(s.stored)
		segments = append(segments, s)
	}
	if total != begin {
		return nil, errDamaged
	}
	return segments, nil
}

// compactedSegments lists the segments of what stands for a pack that is gone;
// missing is the error where nothing does.
func (l *Library) compactedSegments(ctx context.Context, key string, missing error) ([]segment, error) {
	t, err := l.packs.table(ctx, key, nil)
	if err != nil {
		return nil, err
	} else if t == nil {
		return nil, missing
	}
	by := map[uint32]segment{}
	for _, o := range t.objects {
		segments, err := segmentsOf(ctx, l.packs.Store, o)
		if err != nil {
			return nil, err
		}
		for _, s := range segments {
			by[s.offset] = s
		}
	}
	all := make([]segment, 0, len(t.all))
	for _, e := range t.all {
		all = append(all, by[e.offset])
	}
	return all, nil
}

// compactor writes compacted packs. It serves one goroutine.
type compactor struct {
	lib    *Library
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
	to := c.lib.blobs
	if strings.HasPrefix(id, sealedPrefix) {
		to = c.lib.sealed
	}
	if err := to.Put(ctx, key, bytes.NewReader(object), int64(len(object))); err != nil {
		return "", 0, fmt.Errorf("storing a compacted pack: %w", err)
	}
	return key, int64(len(object)), nil
}

func (c *compactor) nextKey(ctx context.Context, id string) (string, error) {
	first := packKey(c.org, id)
	later, err := laterGenerations(ctx, c.lib.packs.Store, first)
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

// isDamage tells errors of the content from those of the way to it.
func isDamage(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, errCorrupt) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrDamaged)
}

// from gives a source of write that reads a pack in place.
func (c *compactor) from(ctx context.Context, f *packReader, id string) func(segment) ([]byte, error) {
	return func(s segment) ([]byte, error) {
		b := make([]byte, s.stored)
		return b, f.read(ctx, id, int64(s.offset), b)
	}
}
