package files

import (
	"context"
	"fmt"
	"io"
	"sort"

	"github.com/stint-dev/stint"
)

// Stat tells what a tree holds, at the cost of reading its root. The Epoch of
// what it gives is 0.
func (l *Library) Stat(ctx context.Context, org, digest string) (Ref, error) {
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return Ref{}, err
	}
	return Ref{Digest: digest, Size: m.root.size, Files: m.root.files}, nil
}

// Files lists at most limit entries that follow the path after ("" = from the
// start), in path order, and tells whether more exist. After need not exist.
func (l *Library) List(ctx context.Context, org, digest, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileEntry{}
	for e, err := range m.from(ctx, after) {
		if err != nil {
			return nil, false, err
		}
		if len(page) >= limit {
			return page, true, nil
		}
		page = append(page, e.public())
	}
	return page, false, nil
}

// File is the content of a stored file. It serves one goroutine.
type File interface{ io.ReadSeekCloser }

// Open opens the file at path. A path that the tree lacks is a NotFound
// *stint.Error, one that is no file an Invalid one. Reads end when ctx does;
// what they give is verified.
func (l *Library) Open(ctx context.Context, org, digest, path string) (File, stint.FileEntry, error) {
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return nil, stint.FileEntry{}, err
	}
	e, err := m.find(ctx, path)
	switch {
	case err != nil:
		return nil, stint.FileEntry{}, err
	case e == nil:
		return nil, stint.FileEntry{}, stint.NotFound("file", path)
	case e.kind != file:
		return nil, stint.FileEntry{}, stint.InvalidParam("path", "'%s' is no file but a %s.", printable(path), e.kind)
	}
	f := &content{ctx: ctx, entry: e, fetch: packReader{store: l.blobs, org: org}, current: -1}
	for i := range e.chunks {
		f.size += int64(e.chunks[i].raw)
		f.ends = append(f.ends, f.size)
	}
	return f, e.public(), nil
}

// content reads a file chunk by chunk.
type content struct {
	ctx      context.Context // of the call that opened it: readers take none
	entry    *entry
	fetch    packReader
	expand   expander
	size     int64
	ends     []int64 // where each chunk ends
	position int64
	current  int // the chunk in buf, or -1
	buf      []byte
	segment  []byte
	closed   error
}

func (f *content) Seek(offset int64, whence int) (int64, error) {
	at, err := seek(f.position, f.size, offset, whence)
	if err != nil {
		return 0, fmt.Errorf("seeking in %q: %w", f.entry.path, err)
	}
	f.position = at
	return at, nil
}

func (f *content) Read(b []byte) (int, error) {
	switch {
	case f.closed != nil:
		return 0, f.closed
	case f.position >= f.size:
		return 0, io.EOF
	}
	i := sort.Search(len(f.ends), func(i int) bool { return f.ends[i] > f.position })
	if i != f.current {
		if err := f.load(i); err != nil {
			return 0, fmt.Errorf("reading %q: %w", f.entry.path, err)
		}
	}
	n := copy(b, f.buf[int64(len(f.buf))-(f.ends[i]-f.position):])
	f.position += int64(n)
	return n, nil
}

func (f *content) load(i int) error {
	c := &f.entry.chunks[i]
	f.current = -1
	f.buf, f.segment = resized(f.buf, int(c.raw)), resized(f.segment, int(c.at.stored))
	if err := f.fetch.read(f.ctx, c.at.pack, int64(c.at.offset), f.segment); err != nil {
		return err
	}
	if err := f.expand.chunk(f.buf, f.segment, c); err != nil {
		return err
	}
	f.current = i
	return nil
}

// resized gives a buffer of n bytes, b where it is large enough.
func resized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func (f *content) Close() error {
	f.closed = errClosed
	return f.fetch.close()
}
