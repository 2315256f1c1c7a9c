package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
)

// Archive reads a tree as a tar.gz: one gzip member of a POSIX tar in path
// order, the same bytes each time. It serves one goroutine.
//
// What it gives is assembled from stored segments as they are; the member's
// own checksum lets the receiver verify them.
type Archive struct {
	ctx      context.Context // of the call that opened it: readers take none
	m        *manifest
	pages    pageReader
	fetch    packReader
	position int64
	ended    error // set by Close

	// What follows is the piece of the archive in hand. That of a page grows
	// as it is read.
	pieceAt int64
	parts   []layoutPart
	offsets []int64 // where each part ends, from pieceAt
	page    *page   // nil where the piece is of none
	layout  layout
	rest    []*entry // of the page, not laid out yet
}

// Archive opens the tree's archive. Reads end when ctx does.
func (l *Library) Archive(ctx context.Context, org, digest string) (*Archive, error) {
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	return &Archive{ctx: ctx, m: m, pages: pageReader{m: m}, fetch: packReader{store: l.blobs, org: org}}, nil
}

// Size is the length of the whole archive, in bytes.
func (a *Archive) Size() int64 { return a.m.root.archiveLength() }

// Seek implements io.Seeker and costs nothing.
func (a *Archive) Seek(offset int64, whence int) (int64, error) {
	at, err := seek(a.position, a.Size(), offset, whence)
	if err != nil {
		return 0, fmt.Errorf("seeking in an archive: %w", err)
	}
	a.position = at
	return at, nil
}

func seek(position, size, offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += position
	case io.SeekEnd:
		offset += size
	default:
		return 0, fmt.Errorf("whence %d is unknown", whence)
	}
	if offset < 0 {
		return 0, errors.New("the position is negative")
	}
	return offset, nil
}

// Read implements io.Reader. It fills b as long as the archive goes on.
func (a *Archive) Read(b []byte) (n int, err error) {
	switch {
	case a.ended != nil:
		return 0, a.ended
	case a.position >= a.Size():
		return 0, io.EOF
	}
	for n < len(b) && a.position < a.Size() {
		if !a.inHand(a.position) {
			if err := a.load(); err != nil {
				return n, err
			}
		}
		read, err := a.readPart(b[n:])
		n += read
		a.position += int64(read)
		if err != nil {
			return n, fmt.Errorf("reading an archive: %w", err)
		}
	}
	return n, nil
}

func (a *Archive) inHand(at int64) bool {
	return len(a.offsets) > 0 && at >= a.pieceAt && at < a.pieceAt+a.offsets[len(a.offsets)-1]
}

// readPart reads from the part at the position.
func (a *Archive) readPart(b []byte) (int, error) {
	at := a.position - a.pieceAt
	i := sort.Search(len(a.offsets), func(i int) bool { return a.offsets[i] > at })
	p := &a.parts[i]
	skip := at - (a.offsets[i] - p.length)
	if p.made != nil {
		return copy(b, p.made[skip:]), nil
	}
	b = b[:min(int64(len(b)), p.length-skip)]
	place := p.chunk.at
	if err := a.fetch.read(a.ctx, place.pack, int64(place.offset)+skip, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// load takes the piece at the position in hand: the gzip header, the parts of
// a page, or the end.
func (a *Archive) load() error {
	starts := a.m.root.starts
	i := sort.Search(len(starts), func(i int) bool { return starts[i] > a.position }) - 1
	switch {
	case a.position < int64(len(gzipHead)):
		a.take(0, nil, nil)
		a.hold(layoutPart{made: gzipHead, length: int64(len(gzipHead))})
		return nil
	case a.position >= int64(len(gzipHead))+a.m.root.archive:
		a.loadEnd()
	case i >= 0:
		if err := a.loadPage(i); err != nil {
			return err
		}
	}
	if !a.inHand(a.position) {
		a.take(0, nil, nil)
		return fmt.Errorf("reading an archive: %w", errDamaged)
	}
	return nil
}

// take begins a piece.
func (a *Archive) take(at int64, p *page, entries []*entry) {
	a.pieceAt, a.page, a.rest = at, p, entries
	a.parts, a.offsets = nil, nil
	a.layout = layout{emit: a.hold}
}

func (a *Archive) hold(p layoutPart) {
	end := p.length
	if len(a.offsets) > 0 {
		end += a.offsets[len(a.offsets)-1]
	}
	a.parts, a.offsets = append(a.parts, p), append(a.offsets, end)
}

// loadPage takes page i in hand, up to the position.
func (a *Archive) loadPage(i int) error {
	p := &a.m.root.pages[i]
	if a.page != p || a.position < a.pieceAt {
		entries, err := a.pages.page(a.ctx, i)
		if err != nil {
			return err
		}
		a.take(a.m.root.starts[i], p, entries)
	}
	for len(a.rest) > 0 && !a.inHand(a.position) {
		a.layout.add(a.rest[0])
		if a.rest = a.rest[1:]; len(a.rest) > 0 {
			continue
		}
		a.layout.flush()
		if a.offsets[len(a.offsets)-1] != p.archive.length {
			a.take(0, nil, nil)
			return fmt.Errorf("reading an archive: %w", errDamaged)
		}
	}
	return nil
}

// loadEnd takes the tar's and the gzip member's ends in hand.
func (a *Archive) loadEnd() {
	x := a.m.root
	a.take(int64(len(gzipHead))+x.archive, nil, nil)
	a.hold(archiveEnd)
	tar := x.tar()
	tail := binary.LittleEndian.AppendUint32(append([]byte(nil), streamEnd...), tar.crc)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(tar.raw))
	a.hold(layoutPart{made: tail, length: gzipTail})
}

// Close releases what reading held.
func (a *Archive) Close() error {
	a.ended = errClosed
	return a.fetch.close()
}

var errClosed = errors.New("it is closed")
