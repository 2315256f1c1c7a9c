package archive

import (
	"context"
	"fmt"
	"sort"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

func openPlan(ctx context.Context, m *manifest.Manifest, s shape, p *plan) *pack.File {
	r := &planReader{ctx: ctx, shape: s, plan: p, pages: manifest.PageReader{M: m}, chunks: pack.ChunkReader{Reader: pack.Reader{Store: m.Store.Packs, Org: m.Org}}}
	return pack.NewFile(r, p.size(), &r.chunks.Reader)
}

// planReader reads the bytes of a planned archive.
type planReader struct {
	ctx    context.Context // of the call that opened the archive; ReadAt has no parameter for it
	shape  shape
	plan   *plan
	pages  manifest.PageReader
	chunks pack.ChunkReader

	// The loaded range: the head, a page, a page's lines of the directory, or the tail.
	at    int64   // offset of the range in the archive
	parts []part  // consecutive parts of the range
	ends  []int64 // end of each part, relative to at
}

// ReadAt implements io.ReaderAt. The bytes to be read must be within the size of the
// plan.
func (r *planReader) ReadAt(b []byte, offset int64) (n int, err error) {
	for n < len(b) && err == nil {
		at := offset + int64(n)
		if !r.isLoaded(at) {
			err = r.load(at)
		}
		if err == nil {
			var read int
			read, err = r.readPart(b[n:], at)
			n += read
		}
	}
	if err != nil {
		return n, fmt.Errorf("reading an archive: %w", err)
	}
	return n, nil
}

func (r *planReader) isLoaded(at int64) bool {
	return len(r.ends) > 0 && at >= r.at && at < r.at+r.ends[len(r.ends)-1]
}

// load loads the range of the archive that contains the offset at.
func (r *planReader) load(at int64) error {
	p := r.plan
	r.parts, r.ends = r.parts[:0], r.ends[:0]
	directoryEnd := p.directoryAt + p.directorySize
	var err error
	switch {
	case at < int64(len(p.head)):
		r.at = 0
		r.parts = append(r.parts, literalPart(p.head))
	case at >= directoryEnd:
		r.at = directoryEnd
		r.parts = append(r.parts, literalPart(p.tail))
	case at >= p.directoryAt:
		at -= p.directoryAt
		err = r.loadDirectory(sort.Search(len(p.pages), func(i int) bool { return p.pages[i].lines > at }) - 1)
	default:
		err = r.loadPage(sort.Search(len(p.pages), func(i int) bool { return p.pages[i].parts > at }) - 1)
	}
	if err != nil {
		return err
	}
	var end int64
	for i := range r.parts {
		end += r.parts[i].length
		r.ends = append(r.ends, end)
	}
	return nil
}

func (r *planReader) loadPage(i int) error {
	entries, err := r.pages.Page(r.ctx, i)
	if err != nil {
		return err
	}
	end := r.plan.directoryAt
	if i+1 < len(r.plan.pages) {
		end = r.plan.pages[i+1].parts
	}
	r.at = r.plan.pages[i].parts
	if r.parts = r.shape.parts(r.parts, entries); total(r.parts) != end-r.at {
		return format.ErrDamaged
	}
	return nil
}

func (r *planReader) loadDirectory(i int) error {
	entries, err := r.pages.Page(r.ctx, i)
	if err != nil {
		return err
	}
	end := r.plan.directorySize
	if i+1 < len(r.plan.pages) {
		end = r.plan.pages[i+1].lines
	}
	var lines []byte
	var parts []part
	at := r.plan.pages[i].parts
	for j, e := range entries {
		lines = r.shape.line(lines, e, at)
		parts = r.shape.parts(parts[:0], entries[j:j+1])
		at += total(parts)
	}
	if int64(len(lines)) != end-r.plan.pages[i].lines {
		return format.ErrDamaged
	}
	r.at = r.plan.directoryAt + r.plan.pages[i].lines
	r.parts = append(r.parts, literalPart(lines))
	return nil
}

// readPart reads from the loaded part that contains the offset at, at most to the
// end of the part.
func (r *planReader) readPart(b []byte, at int64) (int, error) {
	at -= r.at
	i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > at })
	p := &r.parts[i]
	skip := at - (r.ends[i] - p.length)
	switch {
	case p.chunk == nil:
		return copy(b, p.literal[skip:]), nil
	case p.expanded:
		content, err := r.chunks.Chunk(r.ctx, p.chunk)
		if err != nil {
			return 0, err
		}
		return copy(b, content[skip:]), nil
	}
	b = b[:min(int64(len(b)), p.length-skip)]
	if err := r.chunks.Read(r.ctx, p.chunk.Place.Pack, int64(p.chunk.Place.Offset)+skip, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
