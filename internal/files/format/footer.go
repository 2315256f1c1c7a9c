package format

import (
	"crypto/sha256"
	"encoding/binary"
)

// A pack is its segments, one after the other, and a footer that describes
// them: a record each, then a trailer. So a pack can be understood and
// verified without any manifest.

// segmentKind tells what a segment holds.
type SegmentKind byte

const (
	ChunkSegment SegmentKind = 1 + iota // deflated content of a file
	PageSegment                         // a compressed page of a manifest
)

// segment is a record of a footer.
type Segment struct {
	Kind   SegmentKind
	Hash   Hash   // of a chunk's content, or of a page as it is stored
	Offset uint32 // bytes from the pack's start
	Length uint32 // bytes in the pack
	Size   uint32 // bytes when expanded
	CRC    uint32 // CRC-32 (IEEE) of the expanded bytes
}

const (
	FooterMagic   = "stint-p2"
	FooterRecord  = 1 + sha256.Size + 4*4
	FooterTrailer = 8 + sha256.Size + len(FooterMagic)
	// maxSegments bounds the records of a footer.
	MaxSegments = 1 << 16
	// maxPackObject is what a damaged or foreign pack is not believed beyond.
	MaxPackObject = 1 << 30
)

func (s *Segment) Append(b []byte) []byte {
	b = append(append(b, byte(s.Kind)), s.Hash[:]...)
	for _, v := range []uint32{s.Offset, s.Length, s.Size, s.CRC} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// appendTrailer completes a footer's records.
func AppendTrailer(b []byte, magic string) []byte {
	sum := sha256.Sum256(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(b)))
	return append(append(b, sum[:]...), magic...)
}

// decodeFooter reads the footer of a pack of size bytes, through read.
func DecodeFooter(size int64, read func(offset, n int64) ([]byte, error)) ([]Segment, error) {
	records, begin, err := readRecords(size, FooterMagic, read)
	if err != nil {
		return nil, err
	}
	return DecodeSegments(records, begin)
}

// readRecords reads the records of a footer and tells where it begins.
func readRecords(size int64, magic string, read func(offset, n int64) ([]byte, error)) (records []byte, begin int64, err error) {
	if size < int64(FooterTrailer) || size > MaxPackObject {
		return nil, 0, ErrDamaged
	}
	// What is read at once mostly catches the whole footer.
	tail, err := read(max(0, size-tailSize), min(size, tailSize))
	if err != nil {
		return nil, 0, err
	}
	r := &Decoder{B: tail[len(tail)-FooterTrailer:]}
	n, sum := binary.LittleEndian.Uint64(r.take(8)), r.Hash()
	if string(r.B) != magic || n > MaxSegments*FooterRecord || n%FooterRecord != 0 || int64(n) > size-int64(FooterTrailer) {
		return nil, 0, ErrDamaged
	}
	begin = size - int64(FooterTrailer) - int64(n)
	if have := len(tail) - FooterTrailer; int64(n) <= int64(have) {
		tail = tail[have-int(n) : have]
	} else if tail, err = read(begin, int64(n)); err != nil {
		return nil, 0, err
	}
	if Hash(sha256.Sum256(tail)) != sum {
		return nil, 0, ErrDamaged
	}
	return tail, begin, nil
}

// decodeSegments reads the records of a footer that begins at begin, up to
// which segments must fill the pack.
func DecodeSegments(b []byte, begin int64) ([]Segment, error) {
	segments := make([]Segment, 0, len(b)/FooterRecord)
	at := int64(0)
	for r := (&Decoder{B: b}); len(r.B) > 0; {
		s := decodeSegment(r)
		if s.Kind != ChunkSegment && s.Kind != PageSegment || int64(s.Offset) != at {
			return nil, ErrDamaged
		}
		at += int64(s.Length)
		segments = append(segments, s)
	}
	if at != begin {
		return nil, ErrDamaged
	}
	return segments, nil
}

func decodeSegment(r *Decoder) Segment {
	return Segment{
		Kind: SegmentKind(r.byte()), Hash: r.Hash(),
		Offset: r.Uint32(), Length: r.Uint32(), Size: r.Uint32(), CRC: r.Uint32(),
	}
}

// tailSize is read at once from a pack's end.
const tailSize = 64 << 10

// decodeCompacted reads the footer of a compacted pack of size bytes, through
// read.
func DecodeCompacted(size int64, read func(offset, n int64) ([]byte, error)) ([]Segment, error) {
	b, begin, err := readRecords(size, CompactedMagic, read)
	if err != nil {
		return nil, err
	}
	segments := make([]Segment, 0, len(b)/FooterRecord)
	before, total := int64(0), int64(0) // the end of the segment before, and the bytes of all
	for r := (&Decoder{B: b}); len(r.B) > 0; {
		s := decodeSegment(r)
		if s.Kind != ChunkSegment && s.Kind != PageSegment || int64(s.Offset) < before {
			return nil, ErrDamaged
		}
		before = int64(s.Offset) + int64(s.Length)
		total += int64(s.Length)
		segments = append(segments, s)
	}
	if total != begin {
		return nil, ErrDamaged
	}
	return segments, nil
}

const CompactedMagic = "stint-c2"

// maxPack bounds the bytes of a pack; only a single page that is larger makes
// a larger one.
const MaxPack = 16 << 20
