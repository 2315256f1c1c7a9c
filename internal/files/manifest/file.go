package manifest

import (
	"context"
	"fmt"
	"sort"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
)

// OpenFile returns a reader of the content of e. Reads fail when ctx ends; the
// content is verified.
func (m *Manifest) OpenFile(ctx context.Context, e *format.Entry) *pack.File {
	c := &contentReader{ctx: ctx, entry: e, packs: pack.Reader{Store: m.Store.Packs, Org: m.Org}, current: -1}
	var size int64
	for i := range e.Chunks {
		size += int64(e.Chunks[i].Size)
		c.ends = append(c.ends, size)
	}
	return pack.NewFile(c, size, &c.packs)
}

// contentReader reads a file chunk by chunk.
type contentReader struct {
	ctx     context.Context // of the call that opened it: io.ReaderAt takes none
	entry   *format.Entry
	packs   pack.Reader
	expand  format.Expander
	ends    []int64 // of each chunk
	current int     // the chunk in content, or -1
	content []byte
	segment []byte
}

// ReadAt implements io.ReaderAt within the size of the file.
func (c *contentReader) ReadAt(b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		at := offset + int64(n)
		i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > at })
		if i != c.current {
			if err := c.load(i); err != nil {
				return n, fmt.Errorf("reading %q: %w", c.entry.Path, err)
			}
		}
		n += copy(b[n:], c.content[int64(len(c.content))-(c.ends[i]-at):])
	}
	return n, nil
}

// load reads, expands and verifies chunk i.
func (c *contentReader) load(i int) error {
	k := &c.entry.Chunks[i]
	c.current = -1
	c.content, c.segment = pack.Resize(c.content, int(k.Size)), pack.Resize(c.segment, int(k.Place.Length))
	if err := c.packs.Read(c.ctx, k.Place.Pack, int64(k.Place.Offset), c.segment); err != nil {
		return err
	}
	if err := c.expand.Expand(c.content, c.segment, k); err != nil {
		return err
	}
	c.current = i
	return nil
}
