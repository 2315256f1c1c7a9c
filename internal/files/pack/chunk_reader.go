package pack

import (
	"context"

	"github.com/stint-dev/stint/internal/files/format"
)

// ChunkReader reads and verifies chunks. It is not safe for concurrent use.
type ChunkReader struct {
	Reader
	expander format.Expander
	last     *format.Chunk // the chunk in content, or nil
	content  []byte
	segment  []byte
}

// Chunk returns the verified content of c, which is valid until the next call.
// Consecutive calls with the same pointer read the chunk once, so *c must not change
// between them.
func (r *ChunkReader) Chunk(ctx context.Context, c *format.Chunk) ([]byte, error) {
	if r.last == c {
		return r.content, nil
	}
	r.last = nil
	if _, err := r.Segment(ctx, c); err != nil {
		return nil, err
	}
	r.content = Resize(r.content, int(c.Size))
	if err := r.expander.Expand(r.content, r.segment, c); err != nil {
		return nil, err
	}
	r.last = c
	return r.content, nil
}

// Segment returns the stored, compressed bytes of c without verifying them. They are
// valid until the next call.
func (r *ChunkReader) Segment(ctx context.Context, c *format.Chunk) ([]byte, error) {
	r.segment = Resize(r.segment, int(c.Place.Length))
	return r.segment, r.Read(ctx, c.Place.Pack, int64(c.Place.Offset), r.segment)
}
