package files

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// manifestWriter makes pages and a root from entries in path order. Pages are
// spooled until settle finds them their place, as their chunks come first. It
// serves one goroutine.
type manifestWriter struct {
	store     *manifestStore
	rootBytes int                    // the most that the list of pages may take, about
	base      *manifest              // the tree whose pages can be taken over, or nil
	out       *spool                 // the new pages, in order
	isMarked  func(pack string) bool // whether a pack is about to be deleted; nil for never

	entries []*entry // of the open page
	logical []byte   // their logical form
	form    []byte   // of a page being ended
	table   packTable

	root      root
	listBytes int       // of the list of pages, about
	packs     packTable // of the root
	fresh     []newPage // the new pages
}

// fresh is a page of the root that is spooled.
type newPage struct {
	page int
	raw  uint32 // bytes when expanded
	crc  uint32 // of them
}

func newManifestWriter(s *manifestStore, tempDir string, rootBytes int) *manifestWriter {
	return &manifestWriter{store: s, rootBytes: rootBytes, out: newSpool(tempDir)}
}

func (w *manifestWriter) close() error { return w.out.Close() }

// add takes the next entry.
func (w *manifestWriter) add(e *entry) error {
	w.entries = append(w.entries, e)
	w.logical = e.appendLogical(w.logical)
	if !endsPage(e.path, len(w.logical)) {
		return nil
	}
	return w.endPage()
}

// atPage tells whether the writer stands between pages.
func (w *manifestWriter) atPage() bool { return len(w.entries) == 0 }

// endPage completes the open page, if there is one.
func (w *manifestWriter) endPage() error {
	if len(w.entries) == 0 {
		return nil
	}
	p := page{first: w.entries[0].path, logical: sha256.Sum256(w.logical), entries: int64(len(w.entries))}
	var err error
	if i := w.basePage(&p); i >= 0 {
		err = w.takeOver(i)
	} else {
		err = w.spoolPage(p)
	}
	clear(w.entries)
	w.entries, w.logical = w.entries[:0], w.logical[:0]
	return err
}

// basePage gives the base's page that equals p, or -1.
func (w *manifestWriter) basePage(p *page) int {
	if w.base == nil || len(w.base.root.pages) == 0 {
		return -1
	}
	i := w.base.pageOf(p.first)
	if w.base.root.pages[i].logical != p.logical || !w.lasting(i) {
		return -1
	}
	return i
}

// lasting tells whether page i of the base and the packs that it names may be
// built upon.
func (w *manifestWriter) lasting(i int) bool {
	if w.isMarked == nil {
		return true
	}
	from := w.base.root
	p := &from.pages[i]
	if w.isMarked(from.packs[p.pack]) {
		return false
	}
	for _, n := range p.packs {
		if w.isMarked(from.packs[n]) {
			return false
		}
	}
	return true
}

// takeOver adds page i of the base, which must begin where the writer stands.
func (w *manifestWriter) takeOver(i int) error {
	from := w.base.root
	p := from.pages[i]
	p.pack = w.packs.number(from.packs[p.pack])
	numbers := make([]uint32, len(p.packs))
	for j, n := range p.packs {
		numbers[j] = w.packs.number(from.packs[n])
	}
	p.packs = numbers
	return w.list(p)
}

// list adds a page to the root, unless nobody would read that then.
func (w *manifestWriter) list(p page) error {
	w.root.pages = append(w.root.pages, p)
	w.listBytes += len(p.first) + pageRecord + binary.MaxVarintLen32*len(p.packs)
	if w.listBytes+packRecord*len(w.packs.ids) > w.rootBytes {
		return tooLarge("The tree has too many entries with long paths. Use shorter paths, or store it as several trees.")
	}
	return nil
}

// spoolPage adds p, which has the entries of the open page.
func (w *manifestWriter) spoolPage(p page) error {
	l := layout{emit: p.archive.add}
	for _, e := range w.entries {
		l.add(e)
		if e.kind == file {
			p.files++
			p.size += e.size
		}
	}
	l.flush()
	w.form = appendPage(w.form[:0], &w.table, w.entries)
	for _, id := range w.table.ids {
		p.packs = append(p.packs, w.packs.number(id))
	}
	b := w.store.zstdOut.EncodeAll(w.form, nil)
	p.stored, p.sum = uint32(len(b)), sha256.Sum256(b)
	w.fresh = append(w.fresh, newPage{page: len(w.root.pages), raw: uint32(len(w.form)), crc: crc32.ChecksumIEEE(w.form)})
	if err := w.list(p); err != nil {
		return err
	}
	_, err := w.out.Write(b)
	return err
}

// finish ends the tree and names it.
func (w *manifestWriter) finish() (digest string, err error) {
	if err := w.endPage(); err != nil {
		return "", err
	}
	w.root.sum()
	return w.root.digest(), nil
}

// settle moves the new pages into packs.
func (w *manifestWriter) settle(to *packer) error {
	at := int64(0)
	for _, f := range w.fresh {
		p := &w.root.pages[f.page]
		b := make([]byte, p.stored)
		if _, err := io.ReadFull(w.out.section(at, int64(len(b))), b); err != nil {
			return err
		}
		at += int64(len(b))
		rests, err := to.add(segment{kind: pageSegment, hash: p.sum, raw: f.raw, crc: f.crc}, b)
		if err != nil {
			return err
		}
		p.pack, p.offset = w.packs.number(rests.pack), rests.offset
	}
	w.root.packs = w.packs.ids
	return nil
}
