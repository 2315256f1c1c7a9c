package files

import (
	"crypto/sha256"
	"encoding/binary"
)

// A page is a run of entries: the packs that their places name, then the
// entries. Where pages end follows from the entries alone, and in a way that
// an edit shifts no ends but those around it.
const (
	minPage = 16 << 10  // logical bytes of a page before it may end by its paths
	maxPage = 256 << 10 // where it ends whatever they are
	// pageMask names the bits of a path's hash that are zero at an end.
	pageMask = 1<<9 - 1
	// maxPageBytes bounds what a damaged manifest can make us hold: of a page
	// as it is stored and of one expanded.
	maxPageBytes = 64 << 20
)

// endsPage tells whether a page of so many logical bytes ends after path.
func endsPage(path string, logical int) bool {
	return logical >= maxPage || logical >= minPage && pathHash(path)&pageMask == 0
}

// pathHash is FNV-1a with a last step that spreads it over all bits. Changing
// it changes every digest of trees with more than a page.
func pathHash(path string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(path) {
		h = (h ^ uint64(path[i])) * 0x100000001b3
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// page is what a root knows of a page.
type page struct {
	first   string // path of its first entry
	logical hash   // of its entries' logical form
	pack    uint32 // where it rests: the number of a pack in the root's list,
	offset  uint32 // bytes from the pack's start
	stored  uint32 // and bytes there
	sum     hash   // of the stored bytes
	entries int64
	files   int64
	size    int64    // of the files, bytes
	archive measure  // of its parts of the archive
	packs   []uint32 // that its entries' places name, by number
}

// pageRecord is about what a page takes in a root besides its first path and
// its packs, packRecord what a pack does. Roots may be somewhat larger than
// that sums up to: twice as large ones can be read.
const (
	pageRecord = 2*sha256.Size + 40
	packRecord = 40
)

// maxPageSum bounds each number that is summed over pages, so that no sum
// overflows.
const maxPageSum = 1 << 42

func (p *page) append(b []byte) []byte {
	b = appendText(b, p.first)
	b = append(b, p.logical[:]...)
	b = append(b, p.sum[:]...)
	for _, v := range []int64{
		int64(p.pack), int64(p.offset), int64(p.stored), p.entries, p.files, p.size,
		p.archive.length, p.archive.raw, int64(p.archive.crc), int64(len(p.packs)),
	} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	for _, n := range p.packs {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// decodePage reads what a root says of a page. It may name packs below limit.
func decodePage(r *decoder, limit int) (p page) {
	number := func() uint32 {
		n := r.uint(1<<32 - 1)
		if n >= uint64(limit) {
			r.fail()
		}
		return uint32(n)
	}
	sum := func() int64 { return int64(r.uint(maxPageSum)) }
	p.first, p.logical, p.sum = r.text(), r.hash(), r.hash()
	p.pack, p.offset, p.stored = number(), uint32(r.uint(maxPack)), uint32(r.uint(maxPageBytes))
	p.entries, p.files, p.size = sum(), sum(), sum()
	if p.entries == 0 {
		r.fail()
	}
	p.archive.length, p.archive.raw, p.archive.crc = sum(), sum(), uint32(r.uint(1<<32-1))
	n := r.uint(uint64(len(r.b)))
	if n > 0 {
		p.packs = make([]uint32, 0, n)
	}
	for range n {
		p.packs = append(p.packs, number())
	}
	return p
}

// appendPage encodes entries as a page. t is emptied and then holds the packs
// that they name.
func appendPage(b []byte, t *packTable, entries []*entry) []byte {
	t.reset()
	var body []byte
	for _, e := range entries {
		body = e.appendStored(body, t)
	}
	b = binary.AppendUvarint(b, uint64(len(t.ids)))
	for _, id := range t.ids {
		b = appendText(b, id)
	}
	return append(b, body...)
}

// decodeEntries reads a page.
func decodeEntries(b []byte) ([]*entry, error) {
	r := &decoder{b: b}
	var packs []string
	for n := r.uint(uint64(len(b))); n > 0 && r.err == nil; n-- {
		packs = append(packs, r.text())
	}
	var entries []*entry
	for len(r.b) > 0 {
		e, err := decodeEntry(r, packs)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, r.err
}

// logicalHash is what a root and a digest know entries by.
func logicalHash(entries []*entry) (h hash) {
	sum := sha256.New()
	var b []byte
	for _, e := range entries {
		b = e.appendLogical(b[:0])
		sum.Write(b)
	}
	sum.Sum(h[:0])
	return h
}
