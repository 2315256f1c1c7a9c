package format

import (
	"crypto/sha256"
	"encoding/binary"
)

// A page consists of consecutive entries of a tree, preceded by a list of the packs
// that hold the entries' chunks. The ends of pages depend only on the entries, so a
// change moves only the ends near it. Logical bytes are bytes that AppendLogical
// appends.
const (
	minPage = 16 << 10  // logical bytes from which a page may end after a suitable path
	maxPage = 256 << 10 // logical bytes at which a page ends after any path
	// pageMask selects the bits of a path's hash that are zero for a suitable path.
	pageMask = 1<<9 - 1
	// maxPageBytes is the maximum length of a stored page. It bounds the memory
	// that a damaged manifest can cause to be allocated for a stored page. For an
	// expanded page, MaxRoot is the bound.
	maxPageBytes = 64 << 20
)

// EndsPage reports whether a page ends after the entry at path. logical is the number
// of the page's logical bytes, including those of that entry.
func EndsPage(path string, logical int) bool {
	return logical >= maxPage || logical >= minPage && pathHash(path)&pageMask == 0
}

// pathHash returns the FNV-1a hash of a path, mixed so that every bit depends on the
// whole path. A change of the function changes the ends of pages, and so the digests
// of most trees of more than minPage logical bytes.
func pathHash(path string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(path) {
		h = (h ^ uint64(path[i])) * 0x100000001b3
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Page describes a page in a root.
type Page struct {
	First   string     // path of the first entry
	Logical Hash       // LogicalHash of the entries
	Pack    uint32     // index in Root.Packs of the pack that holds the page
	Offset  uint32     // offset of the page in the pack, in bytes
	Length  uint32     // length of the stored page in bytes
	Sum     Hash       // SHA-256 of the stored page
	Entries int64      // number of entries
	Files   int64      // number of files
	Size    int64      // sum of the file sizes in bytes
	Archive ArchiveSum // the page's parts of the tar.gz
	Packs   []uint32   // indices in Root.Packs of the packs that hold the entries' chunks
}

// PageRecord is the approximate number of bytes of a page in a root, without its
// first path and its packs. PackRecord is the approximate number of bytes of a pack
// in a root. A root that is somewhat larger than estimated does no harm: readers accept
// roots of twice the size that writers may reach.
const (
	PageRecord = 2*sha256.Size + 40
	PackRecord = 40
)

// maxPageSum bounds each number that is summed over pages, so that no sum
// overflows.
const maxPageSum = 1 << 42

func (p *Page) append(b []byte) []byte {
	b = appendText(b, p.First)
	b = append(b, p.Logical[:]...)
	b = append(b, p.Sum[:]...)
	for _, v := range []int64{
		int64(p.Pack), int64(p.Offset), int64(p.Length), p.Entries, p.Files, p.Size,
		p.Archive.Length, p.Archive.Raw, int64(p.Archive.Crc), int64(len(p.Packs)),
	} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	for _, n := range p.Packs {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// decodePage reads the description of a page. Indices of packs must be below
// limit.
func decodePage(r *Decoder, limit int) (p Page) {
	number := func() uint32 {
		n := r.uint(1<<32 - 1)
		if n >= uint64(limit) {
			r.fail()
		}
		return uint32(n)
	}
	sum := func() int64 { return int64(r.uint(maxPageSum)) }
	p.First, p.Logical, p.Sum = r.text(), r.Hash(), r.Hash()
	p.Pack, p.Offset, p.Length = number(), uint32(r.uint(MaxPack)), uint32(r.uint(maxPageBytes))
	p.Entries, p.Files, p.Size = sum(), sum(), sum()
	if p.Entries == 0 {
		r.fail()
	}
	p.Archive.Length, p.Archive.Raw, p.Archive.Crc = sum(), sum(), uint32(r.uint(1<<32-1))
	n := r.uint(uint64(len(r.B)))
	if n > 0 {
		p.Packs = make([]uint32, 0, n)
	}
	for range n {
		p.Packs = append(p.Packs, number())
	}
	return p
}

// AppendPage appends a page that holds entries. It empties t first, so that t then
// holds the packs of the page.
func AppendPage(b []byte, t *PackTable, entries []*Entry) []byte {
	t.reset()
	var body []byte
	for _, e := range entries {
		body = e.AppendStored(body, t)
	}
	b = binary.AppendUvarint(b, uint64(len(t.IDs)))
	for _, id := range t.IDs {
		b = appendText(b, id)
	}
	return append(b, body...)
}

// DecodeEntries decodes a page.
func DecodeEntries(b []byte) ([]*Entry, error) {
	r := &Decoder{B: b}
	var packs []string
	for n := r.uint(uint64(len(b))); n > 0 && r.err == nil; n-- {
		packs = append(packs, r.text())
	}
	var entries []*Entry
	for len(r.B) > 0 {
		e, err := DecodeEntry(r, packs)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, r.err
}

// LogicalHash returns the SHA-256 of the entries' logical form, which identifies the
// entries of a page in a root and in a digest.
func LogicalHash(entries []*Entry) (h Hash) {
	sum := sha256.New()
	var b []byte
	for _, e := range entries {
		b = e.AppendLogical(b[:0])
		sum.Write(b)
	}
	sum.Sum(h[:0])
	return h
}
