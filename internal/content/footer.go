package content

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
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
func appendTrailer(b []byte) []byte {
	sum := sha256.Sum256(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(b)))
	return append(append(b, sum[:]...), footerMagic...)
}

// packFooter lists the segments of a pack in the order in which they lie. A
// missing pack is blob.ErrNotFound.
func (l *Library) packFooter(ctx context.Context, org, id string) ([]segment, error) {
	key := packKey(org, id)
	info, err := l.blobs.Stat(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("looking at a pack: %w", err)
	}
	read := func(offset, n int64) ([]byte, error) { return l.fetch(ctx, key, offset, n) }
	segments, err := decodeFooter(info.Size, read)
	if err != nil {
		return nil, fmt.Errorf("reading the footer of pack %s: %w", id, err)
	}
	return segments, nil
}

// decodeFooter reads the footer of a pack of size bytes, through read.
func decodeFooter(size int64, read func(offset, n int64) ([]byte, error)) ([]segment, error) {
	if size < int64(footerTrailer) || size > maxPackObject {
		return nil, errDamaged
	}
	// What is read at once mostly catches the whole footer.
	tail, err := read(max(0, size-tailSize), min(size, tailSize))
	if err != nil {
		return nil, err
	}
	r := &fields{b: tail[len(tail)-footerTrailer:]}
	n, sum := binary.LittleEndian.Uint64(r.take(8)), r.hash()
	if string(r.b) != footerMagic || n > maxSegments*footerRecord || n%footerRecord != 0 || int64(n) > size-int64(footerTrailer) {
		return nil, errDamaged
	}
	begin := size - int64(footerTrailer) - int64(n)
	if have := len(tail) - footerTrailer; int64(n) <= int64(have) {
		tail = tail[have-int(n) : have]
	} else if tail, err = read(begin, int64(n)); err != nil {
		return nil, err
	}
	if hash(sha256.Sum256(tail)) != sum {
		return nil, errDamaged
	}
	return decodeSegments(tail, begin)
}

// decodeSegments reads the records of a footer that begins at begin, up to
// which segments must fill the pack.
func decodeSegments(b []byte, begin int64) ([]segment, error) {
	segments := make([]segment, 0, len(b)/footerRecord)
	at := int64(0)
	for r := (&fields{b: b}); len(r.b) > 0; {
		s := segment{
			kind: segmentKind(r.byte()), hash: r.hash(),
			offset: r.uint32(), stored: r.uint32(), raw: r.uint32(), crc: r.uint32(),
		}
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

// tailSize is read at once from a pack's end.
const tailSize = 64 << 10

// fetch reads n bytes of an object. Less is damage.
func (l *Library) fetch(ctx context.Context, key string, offset, n int64) ([]byte, error) {
	r, err := l.blobs.Get(ctx, key, offset, n)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(r, b); ended(err) {
		err = errDamaged
	}
	return b, joined(err, r.Close())
}
