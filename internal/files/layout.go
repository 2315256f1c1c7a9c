package files

import "hash/crc32"

// gzipHead begins every archive: no name, no time, no system.
var gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// gzipTail is the length of what ends an archive: the end of the deflate
// stream, the CRC and the length modulo 2^32.
const gzipTail = 2 + 4 + 4

// part is a segment of an archive: made here, or stored.
type layoutPart struct {
	made   []byte // nil where the segment is a chunk's
	chunk  *chunk
	length int64 // bytes of the segment
	raw    int64 // bytes of its content
	crc    uint32
}

// layout lays the entries of a tree out as parts of its archive. The same
// entries in the same pages, each ended by flush, give the same parts; that
// is what makes an archive's length known and its ranges cheap.
type layout struct {
	emit    func(layoutPart)
	pending []byte // headers and padding not emitted yet
}

// pendingMax bounds what is held back of headers.
const pendingMax = 32 << 10

func (l *layout) add(e *entry) {
	l.pending = appendHeader(l.pending, e)
	for i := range e.chunks {
		l.flush()
		c := &e.chunks[i]
		l.emit(layoutPart{chunk: c, length: int64(c.at.stored), raw: int64(c.raw), crc: c.at.crc})
	}
	l.pending = append(l.pending, make([]byte, padding(e.size))...)
	if len(l.pending) >= pendingMax {
		l.flush()
	}
}

// archiveEnd is the part of the two empty blocks that end a tar.
var archiveEnd = func() (end layoutPart) {
	l := layout{emit: func(p layoutPart) { end = p }, pending: make([]byte, tarEnd)}
	l.flush()
	return end
}()

// flush emits the headers that wait for more.
func (l *layout) flush() {
	if len(l.pending) == 0 {
		return
	}
	made := appendRuns(make([]byte, 0, len(l.pending)/2), l.pending)
	l.emit(layoutPart{made: made, length: int64(len(made)), raw: int64(len(l.pending)), crc: crc32.ChecksumIEEE(l.pending)})
	l.pending = l.pending[:0]
}

// measure sums parts up.
type measure struct {
	length int64
	raw    int64
	crc    uint32
}

func (m *measure) add(p layoutPart) { m.join(measure{length: p.length, raw: p.raw, crc: p.crc}) }

// join adds what follows.
func (m *measure) join(n measure) {
	m.length += n.length
	m.raw += n.raw
	m.crc = combineCRC(m.crc, n.crc, n.raw)
}
