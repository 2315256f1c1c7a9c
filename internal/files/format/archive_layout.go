package format

import "hash/crc32"

// GzipHead is the header of every tar.gz. It states no name, time, or operating
// system.
var GzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// ArchivePart is a segment of a tar.gz: literal bytes or a stored chunk.
type ArchivePart struct {
	Literal []byte // nil for a stored chunk
	Chunk   *Chunk
	Length  int64 // bytes of the segment
	raw     int64 // bytes of the expanded segment
	crc     uint32
}

// ArchiveLayout divides a tar.gz into parts. The same entries in the same pages,
// each ended by Flush, result in the same parts. So the length of an archive is
// known beforehand, and any range of it is found by arithmetic.
type ArchiveLayout struct {
	Emit    func(ArchivePart)
	pending []byte // headers and padding not emitted yet
}

// pendingMax is the number of pending bytes from which Add emits them.
const pendingMax = 32 << 10

// Add emits the parts of the next entry. A part with headers may remain pending.
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

// ArchiveEnd is the part with the two empty blocks that end a tar.
var ArchiveEnd = func() (end ArchivePart) {
	l := ArchiveLayout{Emit: func(p ArchivePart) { end = p }, pending: make([]byte, TarEnd)}
	l.Flush()
	return end
}()

// Flush emits the pending headers and padding as one part.
func (l *ArchiveLayout) Flush() {
	if len(l.pending) == 0 {
		return
	}
	made := AppendRuns(make([]byte, 0, len(l.pending)/2), l.pending)
	l.Emit(ArchivePart{Literal: made, Length: int64(len(made)), raw: int64(len(l.pending)), crc: crc32.ChecksumIEEE(l.pending)})
	l.pending = l.pending[:0]
}

// ArchiveSum describes consecutive parts of a tar.gz.
type ArchiveSum struct {
	Length int64  // bytes in the tar.gz
	Raw    int64  // bytes of the expanded tar
	Crc    uint32 // CRC-32 (IEEE) of the expanded tar
}

// Add appends a part.
func (m *ArchiveSum) Add(p ArchivePart) { m.join(ArchiveSum{Length: p.Length, Raw: p.raw, Crc: p.crc}) }

// join appends the parts that n describes.
func (m *ArchiveSum) join(n ArchiveSum) {
	m.Length += n.Length
	m.Raw += n.Raw
	m.Crc = CombineCRC(m.Crc, n.Crc, n.Raw)
}
