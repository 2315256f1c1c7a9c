package archive

import (
	"context"
	"encoding/binary"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// shape defines the layout of an archive format. An archive consists of the parts of
// each page in order, then a directory with a line for each entry, then an end. The
// directory may be empty. A tar.gz also has a head before the parts (see plan). The
// methods' results depend only on their arguments.
type shape interface {
	// parts appends the archive's parts that hold entries. entries are all entries
	// of a page or a single one of them.
	parts(to []part, entries []*format.Entry) []part
	// line appends the directory's line for e. The parts of e begin at offset.
	line(to []byte, e *format.Entry, offset int64) []byte
	// end returns the bytes after the directory. directoryAt is the offset of the
	// directory in the archive, entries the number of its lines.
	end(entries, directoryAt, directorySize int64) []byte
}

// part is a piece of an archive: literal bytes, or a stored chunk.
type part struct {
	literal  []byte
	chunk    *format.Chunk // nil for literal bytes
	expanded bool          // the part is the content of the chunk, not its segment
	length   int64         // bytes in the archive
}

func literalPart(b []byte) part { return part{literal: b, length: int64(len(b))} }

func total(parts []part) (n int64) {
	for i := range parts {
		n += parts[i].length
	}
	return n
}

// plan holds the offsets of an archive's pages, so that any offset is reachable
// without reading the tree from its start.
type plan struct {
	head          []byte // bytes before the first part; empty except for a tar.gz
	pages         []pageOffsets
	directoryAt   int64
	directorySize int64
	tail          []byte // bytes after the directory
}

type pageOffsets struct {
	parts int64 // offset of the page's first part in the archive
	lines int64 // offset of the page's first line in the directory
}

func (p *plan) size() int64 { return p.directoryAt + p.directorySize + int64(len(p.tail)) }

// newPlan computes the plan of a tree's archive. It reads the whole manifest and no
// content.
func newPlan(ctx context.Context, m *manifest.Manifest, s shape) (*plan, error) {
	p := &plan{}
	var (
		count int64
		parts []part
		line  []byte
	)
	pages := manifest.PageReader{M: m}
	for i := range m.Root.Pages {
		entries, err := pages.Page(ctx, i)
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

// tarShape is an uncompressed tar. It has the same headers as the tar.gz, and the
// expanded contents.
type tarShape struct{}

func (tarShape) parts(to []part, entries []*format.Entry) []part {
	for _, e := range entries {
		to = append(to, literalPart(format.AppendTarHeader(nil, e)))
		for i := range e.Chunks {
			c := &e.Chunks[i]
			to = append(to, part{chunk: c, expanded: true, length: int64(c.Size)})
		}
		if n := format.TarPadding(e.Size); n > 0 {
			to = append(to, literalPart(zeroes[:n]))
		}
	}
	return to
}

func (tarShape) line(to []byte, _ *format.Entry, _ int64) []byte { return to }

func (tarShape) end(_, _, _ int64) []byte { return zeroes[:format.TarEnd] }

var zeroes [format.TarEnd]byte

// tarGzipShape is a tar.gz of stored segments and deflated tar headers. Its plans are
// made by planTarGzip, which adds the bytes before and after the parts.
type tarGzipShape struct{}

func (tarGzipShape) parts(to []part, entries []*format.Entry) []part {
	l := format.ArchiveLayout{Emit: func(p format.ArchivePart) {
		to = append(to, part{literal: p.Literal, chunk: p.Chunk, length: p.Length})
	}}
	for _, e := range entries {
		l.Add(e)
	}
	l.Flush()
	return to
}

func (tarGzipShape) line(to []byte, _ *format.Entry, _ int64) []byte { return to }

func (tarGzipShape) end(_, _, _ int64) []byte { return nil }

// planTarGzip returns the plan of a tar.gz. It reads no pages, because the root
// records the length and the checksum of each page's part of the tar.gz.
func planTarGzip(x *format.Root) *plan {
	p := &plan{head: format.GzipHead, directoryAt: int64(len(format.GzipHead))}
	for i := range x.Pages {
		p.pages = append(p.pages, pageOffsets{parts: p.directoryAt})
		p.directoryAt += x.Pages[i].Archive.Length
	}
	tar := x.Tar()
	p.tail = append(append(p.tail, format.ArchiveEnd.Literal...), format.StreamEnd...)
	p.tail = binary.LittleEndian.AppendUint32(p.tail, tar.Crc)
	p.tail = binary.LittleEndian.AppendUint32(p.tail, uint32(tar.Raw))
	return p
}
