package manifest

import (
	"context"
	"fmt"
	"sort"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
)

// OpenFile returns a reader of the content of e, which verifies the content. Reads
// fail after ctx ends.
func (m *Manifest) OpenFile(ctx context.Context, e *format.Entry) *pack.File {
	c := &contentReader{ctx: ctx, entry: e, chunks: pack.ChunkReader{Reader: pack.Reader{Store: m.Store.Packs, Org: m.Org}}}
	var size int64
	for i := range e.Chunks {
		size += int64(e.Chunks[i].Size)
		c.ends = append(c.ends, size)
	}
	return pack.NewFile(c, size, &c.chunks.Reader)
}

// contentReader reads a file chunk by chunk.
type contentReader struct {
	ctx    context.Context // of the call that opened the file; ReadAt has no parameter for it
	entry  *format.Entry
	chunks pack.ChunkReader
	ends   []int64 // offset at which each chunk ends
}

// ReadAt implements io.ReaderAt. The bytes to be read must be within the size of the
// file.
func (c *contentReader) ReadAt(b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		at := offset + int64(n)
		i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > at })
		content, err := c.chunks.Chunk(c.ctx, &c.entry.Chunks[i])
		if err != nil {
			return n, fmt.Errorf("reading %q: %w", c.entry.Path, err)
		}
		n += copy(b[n:], content[int64(len(content))-(c.ends[i]-at):])
	}
	return n, nil
}
