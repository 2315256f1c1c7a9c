package files

import (
	"crypto/sha256"
	"encoding/binary"
)

// A pack is its segments, one after the other, and a footer that describes
// them: a record each, then a trailer. So a pack can be understood and
// verified without any manifest.

// segmentKind tells what a segment holds.
type segmentKind byte

const (
	chunkSegment segmentKind = 1 + iota // deflated content of a file
	pageSegment                         // a compressed page of a manifest
)

// segment is a record of a footer.
type segment struct {
	kind   segmentKind
	hash   hash   // of a chunk's content, or of a page as it is stored
	offset uint32 // bytes from the pack's start
	stored uint32 // bytes in the pack
	raw    uint32 // bytes when expanded
	crc    uint32 // CRC-32 (IEEE) of the expanded bytes
}

const (
	footerMagic   = "stint-p2"
	footerRecord  = 1 + sha256.Size + 4*4
	footerTrailer = 8 + sha256.Size + len(footerMagic)
	// maxSegments bounds the records of a footer.
	maxSegments = 1 << 16
	// maxPackObject is what a damaged or foreign pack is not believed beyond.
	maxPackObject = 1 << 30
)

func (s *segment) append(b []byte) []byte {
	b = append(append(b, byte(s.kind)), s.hash[:]...)
	for _, v := range []uint32{s.offset, s.stored, s.raw, s.crc} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// appendTrailer completes a footer's records.
func appendTrailer(b []byte, magic string) []byte {
	sum := sha256.Sum256(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(b)))
	return append(append(b, sum[:]...), magic...)
}

// decodeFooter reads the footer of a pack of size bytes, through read.
func decodeFooter(size int64, read func(offset, n int64) ([]byte, error)) ([]segment, error) {
	records, begin, err := readRecords(size, footerMagic, read)
	if err != nil {
		return nil, err
	}
	return decodeSegments(records, begin)
}

// readRecords reads the records of a footer and tells where it begins.
func readRecords(size int64, magic string, read func(offset, n int64) ([]byte, error)) (records []byte, begin int64, err error) {
	if size < int64(footerTrailer) || size > maxPackObject {
		return nil, 0, errDamaged
	}
	// What is read at once mostly catches the whole footer.
	tail, err := read(max(0, size-tailSize), min(size, tailSize))
	if err != nil {
		return nil, 0, err
	}
	r := &decoder{b: tail[len(tail)-footerTrailer:]}
	n, sum := binary.LittleEndian.Uint64(r.take(8)), r.hash()
	if string(r.b) != magic || n > maxSegments*footerRecord || n%footerRecord != 0 || int64(n) > size-int64(footerTrailer) {
		return nil, 0, errDamaged
	}
	begin = size - int64(footerTrailer) - int64(n)
	if have := len(tail) - footerTrailer; int64(n) <= int64(have) {
		tail = tail[have-int(n) : have]
	} else if tail, err = read(begin, int64(n)); err != nil {
		return nil, 0, err
	}
	if hash(sha256.Sum256(tail)) != sum {
		return nil, 0, errDamaged
	}
	return tail, begin, nil
}

// decodeSegments reads the records of a footer that begins at begin, up to
// which segments must fill the pack.
func decodeSegments(b []byte, begin int64) ([]segment, error) {
	segments := make([]segment, 0, len(b)/footerRecord)
	at := int64(0)
	for r := (&decoder{b: b}); len(r.b) > 0; {
		s := decodeSegment(r)
		if s.kind != chunkSegment && s.kind != pageSegment || int64(s.offset) != at {
			return nil, errDamaged
		}
		at += int64(s.stored)
		segments = append(segments, s)
	}
	if at != begin {
		return nil, errDamaged
	}
	return segments, nil
}

func decodeSegment(r *decoder) segment {
	return segment{
		kind: segmentKind(r.byte()), hash: r.hash(),
		offset: r.uint32(), stored: r.uint32(), raw: r.uint32(), crc: r.uint32(),
	}
}

// tailSize is read at once from a pack's end.
const tailSize = 64 << 10

// decodeCompacted reads the footer of a compacted pack of size bytes, through
// read.
func decodeCompacted(size int64, read func(offset, n int64) ([]byte, error)) ([]segment, error) {
	b, begin, err := readRecords(size, compactedMagic, read)
	if err != nil {
		return nil, err
	}
	segments := make([]segment, 0, len(b)/footerRecord)
	before, total := int64(0), int64(0) // the end of the segment before, and the bytes of all
	for r := (&decoder{b: b}); len(r.b) > 0; {
		s := decodeSegment(r)
		if s.kind != chunkSegment && s.kind != pageSegment || int64(s.offset) < before {
			return nil, errDamaged
		}
		before = int64(s.offset) + int64(s.stored)
		total += int64(s.stored)
		segments = append(segments, s)
	}
	if total != begin {
		return nil, errDamaged
	}
	return segments, nil
}

const compactedMagic = "stint-c2"
