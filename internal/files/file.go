package files

import (
	"context"
	"fmt"
	"sort"
)

// OpenFile returns a reader of the content of e. Reads fail when ctx ends; the
// content is verified.
func (m *manifest) openFile(ctx context.Context, e *entry) *sectionFile {
	c := &contentReader{ctx: ctx, entry: e, packs: packReader{store: m.store.packs, org: m.org}, current: -1}
	var size int64
	for i := range e.chunks {
		size += int64(e.chunks[i].raw)
		c.ends = append(c.ends, size)
	}
	return newSectionFile(c, size, &c.packs)
}

// contentReader reads a file chunk by chunk.
type contentReader struct {
	ctx     context.Context // of the call that opened it: io.ReaderAt takes none
	entry   *entry
	packs   packReader
	expand  expander
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
				return n, fmt.Errorf("reading %q: %w", c.entry.path, err)
			}
		}
		n += copy(b[n:], c.content[int64(len(c.content))-(c.ends[i]-at):])
	}
	return n, nil
}

// load reads, expands and verifies chunk i.
func (c *contentReader) load(i int) error {
	k := &c.entry.chunks[i]
	c.current = -1
	c.content, c.segment = resized(c.content, int(k.raw)), resized(c.segment, int(k.at.stored))
	if err := c.packs.read(c.ctx, k.at.pack, int64(k.at.offset), c.segment); err != nil {
		return err
	}
	if err := c.expand.chunk(c.content, c.segment, k); err != nil {
		return err
	}
	c.current = i
	return nil
}
