package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/spool"
)

// Writer builds pages and a root from entries in path order. New pages are spooled
// until StorePages, because chunks are written to the packs before pages. It is not
// safe for concurrent use.
type Writer struct {
	store     *Store
	rootBytes int                      // approximate limit of the list of pages
	Base      *Manifest                // the tree with pages that can be reused, or nil
	out       *spool.Spool             // the new pages, in order
	IsMarked  func(packID string) bool // reports whether a pack is about to be deleted; nil for never

	entries []*format.Entry // of the open page
	logical []byte          // their logical form
	form    []byte          // encoding of the page that is being completed
	table   format.PackTable

	Root      format.Root
	listBytes int              // approximate size of the list of pages
	Packs     format.PackTable // of the root
	fresh     []newPage        // the new pages
}

// newPage is a page of the root that is spooled.
type newPage struct {
	page int    // index in Root.Pages
	raw  uint32 // bytes when expanded
	crc  uint32 // CRC-32 (IEEE) of the expanded bytes
}

// NewWriter returns a writer that spools to tempDir. rootBytes is the approximate
// maximum size of the root.
func NewWriter(s *Store, tempDir string, rootBytes int) *Writer {
	return &Writer{store: s, rootBytes: rootBytes, out: spool.New(tempDir)}
}

// Close frees memory and disk space.
func (w *Writer) Close() error { return w.out.Close() }

// Add appends the next entry. Entries must be in path order.
func (w *Writer) Add(e *format.Entry) error {
	w.entries = append(w.entries, e)
	w.logical = e.AppendLogical(w.logical)
	if !format.EndsPage(e.Path, len(w.logical)) {
		return nil
	}
	return w.EndPage()
}

// AtPageStart reports whether no page is open.
func (w *Writer) AtPageStart() bool { return len(w.entries) == 0 }

// EndPage completes the open page, if there is one.
func (w *Writer) EndPage() error {
	if len(w.entries) == 0 {
		return nil
	}
	p := format.Page{First: w.entries[0].Path, Logical: sha256.Sum256(w.logical), Entries: int64(len(w.entries))}
	var err error
	if i := w.basePage(&p); i >= 0 {
		err = w.ReusePage(i)
	} else {
		err = w.spoolPage(p)
	}
	clear(w.entries)
	w.entries, w.logical = w.entries[:0], w.logical[:0]
	return err
}

// basePage returns the index of the base's page that equals p and can be reused, or
// -1.
func (w *Writer) basePage(p *format.Page) int {
	if w.Base == nil || len(w.Base.Root.Pages) == 0 {
		return -1
	}
	i := w.Base.PageOf(p.First)
	if w.Base.Root.Pages[i].Logical != p.Logical || !w.CanReuse(i) {
		return -1
	}
	return i
}

// CanReuse reports whether page i of the base can be reused: neither the pack that
// holds the page nor the packs that its entries refer to are about to be deleted.
func (w *Writer) CanReuse(i int) bool {
	if w.IsMarked == nil {
		return true
	}
	from := w.Base.Root
	p := &from.Pages[i]
	if w.IsMarked(from.Packs[p.Pack]) {
		return false
	}
	for _, n := range p.Packs {
		if w.IsMarked(from.Packs[n]) {
			return false
		}
	}
	return true
}

// ReusePage adds page i of the base, which must begin at the current position.
func (w *Writer) ReusePage(i int) error {
	from := w.Base.Root
	p := from.Pages[i]
	p.Pack = w.Packs.Number(from.Packs[p.Pack])
	numbers := make([]uint32, len(p.Packs))
	for j, n := range p.Packs {
		numbers[j] = w.Packs.Number(from.Packs[n])
	}
	p.Packs = numbers
	return w.list(p)
}

// list adds a page to the root. If the root then exceeds rootBytes, list returns a
// *stint.Error.
func (w *Writer) list(p format.Page) error {
	w.Root.Pages = append(w.Root.Pages, p)
	w.listBytes += len(p.First) + format.PageRecord + binary.MaxVarintLen32*len(p.Packs)
	if w.listBytes+format.PackRecord*len(w.Packs.IDs) > w.rootBytes {
		return limits.TooLarge("The tree has too many entries with long paths. Use shorter paths, or store it as several trees.")
	}
	return nil
}

// spoolPage completes the description p of the open page, adds p to the root, and
// spools the encoded page.
func (w *Writer) spoolPage(p format.Page) error {
	l := format.ArchiveLayout{Emit: p.Archive.Add}
	for _, e := range w.entries {
		l.Add(e)
		if e.Kind == format.File {
			p.Files++
			p.Size += e.Size
		}
	}
	l.Flush()
	w.form = format.AppendPage(w.form[:0], &w.table, w.entries)
	for _, id := range w.table.IDs {
		p.Packs = append(p.Packs, w.Packs.Number(id))
	}
	b := w.store.ZstdOut.EncodeAll(w.form, nil)
	p.Length, p.Sum = uint32(len(b)), sha256.Sum256(b)
	w.fresh = append(w.fresh, newPage{page: len(w.Root.Pages), raw: uint32(len(w.form)), crc: crc32.ChecksumIEEE(w.form)})
	if err := w.list(p); err != nil {
		return err
	}
	_, err := w.out.Write(b)
	return err
}

// Finish completes the last page and the sums of the root. It returns the digest of
// the tree.
func (w *Writer) Finish() (digest string, err error) {
	if err := w.EndPage(); err != nil {
		return "", err
	}
	w.Root.Sum()
	return w.Root.Digest(), nil
}

// StorePages adds the new pages to packs and completes the root.
func (w *Writer) StorePages(to *pack.Writer) error {
	at := int64(0)
	for _, f := range w.fresh {
		p := &w.Root.Pages[f.page]
		b := make([]byte, p.Length)
		if _, err := io.ReadFull(w.out.Section(at, int64(len(b))), b); err != nil {
			return err
		}
		at += int64(len(b))
		rests, err := to.Add(format.Segment{Kind: format.PageSegment, Hash: p.Sum, Size: f.raw, CRC: f.crc}, b)
		if err != nil {
			return err
		}
		p.Pack, p.Offset = w.Packs.Number(rests.Pack), rests.Offset
	}
	w.Root.Packs = w.Packs.IDs
	return nil
}
