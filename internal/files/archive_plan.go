package files

import (
	"context"
	"encoding/binary"
)

// archiveShape defines how the entries of a tree become a file: the parts of
// each page in order, then a directory with a line for each entry, then an
// end. Its results depend on nothing but the arguments.
type archiveShape interface {
	// parts appends the parts that hold entries, which are those of one page or
	// a single one of them.
	parts(to []archivePart, entries []*entry) []archivePart
	// line appends the directory's line for e, whose parts begin at offset.
	line(to []byte, e *entry, offset int64) []byte
	// end returns the bytes after a directory of that size and position.
	end(entries, directoryAt, directorySize int64) []byte
}

// archivePart is a piece of such a file.
type archivePart struct {
	literal  []byte // bytes made here; or else
	chunk    *chunk // a stored chunk:
	expanded bool   // its content instead of its segment
	length   int64
}

func literalPart(b []byte) archivePart { return archivePart{literal: b, length: int64(len(b))} }

func total(parts []archivePart) (n int64) {
	for i := range parts {
		n += parts[i].length
	}
	return n
}

// archivePlan holds the offsets of an archive's pages, so that any position is
// reachable without reading the tree from its start.
type archivePlan struct {
	head          []byte
	pages         []pageOffsets
	directoryAt   int64
	directorySize int64
	tail          []byte
}

type pageOffsets struct {
	parts int64 // of the page's first part in the file
	lines int64 // of its first line in the directory
}

func (p *archivePlan) size() int64 { return p.directoryAt + p.directorySize + int64(len(p.tail)) }

// planArchive measures a tree's file. It reads the whole manifest and no
// content.
func planArchive(ctx context.Context, m *manifest, s archiveShape) (*archivePlan, error) {
	p := &archivePlan{}
	var (
		count int64
		parts []archivePart
		line  []byte
	)
	pages := pageReader{m: m}
	for i := range m.root.pages {
		entries, err := pages.page(ctx, i)
		if err != nil {
			return nil, err
		}
		p.pages = append(p.pages, pageOffsets{parts: p.directoryAt, lines: p.directorySize})
		for j, e := range entries {
			line = s.line(line[:0], e, p.directoryAt)
			p.directorySize += int64(len(line))
			parts = s.parts(parts[:0], entries[j:j+1])
			p.directoryAt += total(parts)
		}
		count += int64(len(entries))
	}
	p.tail = s.end(count, p.directoryAt, p.directorySize)
	return p, nil
}

// tarShape is a plain tar: the same headers as in the compressed archive, and
// expanded contents.
type tarShape struct{}

func (tarShape) parts(to []archivePart, entries []*entry) []archivePart {
	for _, e := range entries {
		to = append(to, literalPart(appendHeader(nil, e)))
		for i := range e.chunks {
			c := &e.chunks[i]
			to = append(to, archivePart{chunk: c, expanded: true, length: int64(c.raw)})
		}
		if n := padding(e.size); n > 0 {
			to = append(to, literalPart(zeroes[:n]))
		}
	}
	return to
}

func (tarShape) line(to []byte, _ *entry, _ int64) []byte { return to }

func (tarShape) end(_, _, _ int64) []byte { return zeroes[:tarEnd] }

var zeroes [tarEnd]byte

// tarGzipShape is a gzip member of stored segments and deflated tar headers.
type tarGzipShape struct{}

func (tarGzipShape) parts(to []archivePart, entries []*entry) []archivePart {
	l := layout{emit: func(p layoutPart) {
		to = append(to, archivePart{literal: p.made, chunk: p.chunk, length: p.length})
	}}
	for _, e := range entries {
		l.add(e)
	}
	l.flush()
	return to
}

func (tarGzipShape) line(to []byte, _ *entry, _ int64) []byte { return to }

func (tarGzipShape) end(_, _, _ int64) []byte { return nil }

// planTarGzip takes the plan of a tar.gz from a root, which records the length
// and the checksum of each page's part.
func planTarGzip(x *root) *archivePlan {
	p := &archivePlan{head: gzipHead, directoryAt: int64(len(gzipHead))}
	for i := range x.pages {
		p.pages = append(p.pages, pageOffsets{parts: p.directoryAt})
		p.directoryAt += x.pages[i].archive.length
	}
	tar := x.tar()
	p.tail = append(append(p.tail, archiveEnd.made...), streamEnd...)
	p.tail = binary.LittleEndian.AppendUint32(p.tail, tar.crc)
	p.tail = binary.LittleEndian.AppendUint32(p.tail, uint32(tar.raw))
	return p
}
