package format

import "hash/crc32"

// gzipHead begins every archive: no name, no time, no system.
var GzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// gzipTail is the length of what ends an archive: the end of the deflate
// stream, the CRC and the length modulo 2^32.
const gzipTail = 2 + 4 + 4

// part is a segment of an archive: made here, or stored.
type ArchivePart struct {
	Literal []byte // nil where the segment is a chunk's
	Chunk   *Chunk
	Length  int64 // bytes of the segment
	raw     int64 // bytes of its content
	crc     uint32
}

// layout lays the entries of a tree out as parts of its archive. The same
// entries in the same pages, each ended by flush, give the same parts; that
// is what makes an archive's length known and its ranges cheap.
type ArchiveLayout struct {
	Emit    func(ArchivePart)
	pending []byte // headers and padding not emitted yet
}

// pendingMax bounds what is held back of headers.
const pendingMax = 32 << 10

func (l *ArchiveLayout) Add(e *Entry) {
	l.pending = AppendTarHeader(l.pending, e)
	for i := range e.Chunks {
		l.Flush()
		c := &e.Chunks[i]
		l.Emit(ArchivePart{Chunk: c, Length: int64(c.Place.Length), raw: int64(c.Size), crc: c.Place.CRC})
	}
	l.pending = append(l.pending, make([]byte, TarPadding(e.Size))...)
	if len(l.pending) >= pendingMax {
		l.Flush()
	}
}

// archiveEnd is the part of the two empty blocks that end a tar.
var ArchiveEnd = func() (end ArchivePart) {
	l := ArchiveLayout{Emit: func(p ArchivePart) { end = p }, pending: make([]byte, TarEnd)}
	l.Flush()
	return end
}()

// flush emits the headers that wait for more.
func (l *ArchiveLayout) Flush() {
	if len(l.pending) == 0 {
		return
	}
	made := AppendRuns(make([]byte, 0, len(l.pending)/2), l.pending)
	l.Emit(ArchivePart{Literal: made, Length: int64(len(made)), raw: int64(len(l.pending)), crc: crc32.ChecksumIEEE(l.pending)})
	l.pending = l.pending[:0]
}

// measure sums parts up.
type ArchiveSum struct {
	Length int64
	Raw    int64
	Crc    uint32
}

func (m *ArchiveSum) Add(p ArchivePart) { m.join(ArchiveSum{Length: p.Length, Raw: p.raw, Crc: p.crc}) }

// join adds what follows.
func (m *ArchiveSum) join(n ArchiveSum) {
	m.Length += n.Length
	m.Raw += n.Raw
	m.Crc = CombineCRC(m.Crc, n.Crc, n.Raw)
}
