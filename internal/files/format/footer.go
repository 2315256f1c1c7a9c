package format

import (
	"crypto/sha256"
	"encoding/binary"
)

// A pack consists of segments and a footer that describes them: one record per
// segment, then a trailer. So a pack can be read and verified without a manifest.

// SegmentKind is the kind of a segment's content.
type SegmentKind byte

// Kinds of segments, as stored.
const (
	ChunkSegment SegmentKind = 1 + iota // deflated content of a file
	PageSegment                         // a compressed page of a manifest
)

// Segment describes a segment of a pack. It is a record of the pack's footer.
type Segment struct {
	Kind   SegmentKind
	Hash   Hash   // of a chunk's content, or of a page as it is stored
	Offset uint32 // bytes from the start of the pack
	Length uint32 // bytes in the pack
	Size   uint32 // bytes when expanded
	CRC    uint32 // CRC-32 (IEEE) of the expanded bytes
}

// Parts of a footer; sizes are in bytes.
const (
	FooterMagic   = "stint-p2"
	FooterRecord  = 1 + sha256.Size + 4*4
	FooterTrailer = 8 + sha256.Size + len(FooterMagic)
	// MaxSegments bounds the records of a footer.
	MaxSegments = 1 << 16
	// MaxPackObject is the size in bytes beyond which an object is not accepted as
	// a pack.
	MaxPackObject = 1 << 30
)

// Append appends the record to a footer.
func (s *Segment) Append(b []byte) []byte {
	b = append(append(b, byte(s.Kind)), s.Hash[:]...)
	for _, v := range []uint32{s.Offset, s.Length, s.Size, s.CRC} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// AppendTrailer appends the trailer of a footer to its records b: the length of b,
// the SHA-256 of b, and magic.
func AppendTrailer(b []byte, magic string) []byte {
	sum := sha256.Sum256(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(b)))
	return append(append(b, sum[:]...), magic...)
}

// DecodeFooter reads the footer of a pack of size bytes. read must return n bytes of
// the pack from an offset.
func DecodeFooter(size int64, read func(offset, n int64) ([]byte, error)) ([]Segment, error) {
	records, begin, err := readRecords(size, FooterMagic, read)
	if err != nil {
		return nil, err
	}
	return DecodeSegments(records, begin)
}

// readRecords returns the records of a footer and the offset at which they begin.
func readRecords(size int64, magic string, read func(offset, n int64) ([]byte, error)) (records []byte, begin int64, err error) {
	if size < int64(FooterTrailer) || size > MaxPackObject {
		return nil, 0, ErrDamaged
	}
	// One read of this size usually contains the whole footer.
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

// DecodeSegments decodes the records b of a footer that begins at the offset begin.
// If the kind of a segment is unknown, or the segments do not fill the pack exactly
// up to begin, the error is ErrDamaged.
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

// tailSize is the number of bytes that are read at once from the end of a pack.
const tailSize = 64 << 10

// DecodeCompacted reads the footer of a compacted pack of size bytes. read must
// return n bytes of the pack from an offset.
func DecodeCompacted(size int64, read func(offset, n int64) ([]byte, error)) ([]Segment, error) {
	b, begin, err := readRecords(size, CompactedMagic, read)
	if err != nil {
		return nil, err
	}
	segments := make([]Segment, 0, len(b)/FooterRecord)
	before, total := int64(0), int64(0) // the end of the previous segment, and the bytes of all
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

// CompactedMagic ends the footer of a compacted pack.
const CompactedMagic = "stint-c2"

// MaxPack is the maximum size of a pack in bytes. A pack is larger only if it holds a
// single larger page.
const MaxPack = 16 << 20
