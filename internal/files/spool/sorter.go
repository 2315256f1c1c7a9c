package spool

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"slices"

	"github.com/stint-dev/stint/internal/files/format"
)

// Sorter stores entries in any order and returns them in path order; entries of
// one path keep their order. Entries are spooled, so the memory for entries does not
// grow with the tree.
type Sorter struct {
	dir string
	log *Spool // each entry preceded by its length
	// packs numbers the packs that places of spooled entries refer to.
	packs format.PackTable

	seed    maphash.Seed
	offsets map[uint64]int64 // hash of a path → offset of its latest entry in log; nil before the first Find
}

// runSize is the approximate number of bytes of entries that are sorted in memory.
const runSize = 8 << 20

// NewSorter returns an empty sorter that spools to dir.
func NewSorter(dir string) *Sorter {
	return &Sorter{dir: dir, log: New(dir), seed: maphash.MakeSeed()}
}

// Close frees memory and disk space.
func (a *Sorter) Close() error { return a.log.Close() }

// Add adds an entry.
func (a *Sorter) Add(e *format.Entry) error {
	if a.offsets != nil {
		a.offsets[maphash.String(a.seed, e.Path)] = a.log.Length()
	}
	return a.write(a.log, e)
}

// write spools an entry.
func (a *Sorter) write(w io.Writer, e *format.Entry) error {
	b := e.AppendStored(make([]byte, 8, 256), &a.packs)
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	_, err := w.Write(b)
	return err
}

// read reads an entry that write wrote. At the end of r, the error is io.EOF.
func (a *Sorter) read(r io.Reader) (*format.Entry, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.LittleEndian.Uint64(head[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("reading a spooled entry: %w", err)
	}
	return format.DecodeEntry(&format.Decoder{B: b}, a.packs.IDs)
}

// Find returns the latest entry at path, or nil.
func (a *Sorter) Find(path string) (*format.Entry, error) {
	if a.offsets == nil {
		if err := a.indexLog(); err != nil {
			return nil, err
		}
	}
	offset, ok := a.offsets[maphash.String(a.seed, path)]
	if !ok {
		return nil, nil
	}
	e, err := a.read(a.log.Section(offset, a.log.Length()-offset))
	if err != nil || e.Path != path {
		return nil, err
	}
	return e, nil
}

func (a *Sorter) indexLog() error {
	a.offsets = map[uint64]int64{}
	for offset := int64(0); offset < a.log.Length(); {
		var head [8]byte
		if _, err := a.log.ReadAt(head[:], offset); err != nil {
			return err
		}
		e, err := a.read(a.log.Section(offset, a.log.Length()-offset))
		if err != nil {
			return err
		}
		a.offsets[maphash.String(a.seed, e.Path)] = offset
		offset += 8 + int64(binary.LittleEndian.Uint64(head[:]))
	}
	return nil
}

// Sorted returns the entries in path order.
func (a *Sorter) Sorted() iter.Seq2[*format.Entry, error] {
	return func(yield func(*format.Entry, error) bool) {
		runs := New(a.dir)
		defer func() { _ = runs.Close() }() // only temporary data can be lost
		m, err := a.sortRuns(runs)
		if err != nil {
			yield(nil, err)
			return
		}
		for len(m) > 0 {
			e := m[0].entry
			if err := m.advance(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// sortRuns sorts the log in runs, writes them to runs, and returns a merge of them. It
// keeps a single run in memory.
func (a *Sorter) sortRuns(runs *Spool) (merge, error) {
	log := bufio.NewReaderSize(a.log.Section(0, a.log.Length()), int(min(a.log.Length(), 64<<10)))
	var bounds []int64
	for more := true; more; {
		batch, err := a.readBatch(log)
		if more = err == nil; !more && !errors.Is(err, io.EOF) {
			return nil, err
		}
		slices.SortStableFunc(batch, func(x, y *format.Entry) int { return format.ComparePaths(x.Path, y.Path) })
		if !more && len(bounds) == 0 {
			return newMerge([]nextEntry{fromSlice(batch)})
		}
		bounds = append(bounds, runs.Length())
		for _, e := range batch {
			if err := a.write(runs, e); err != nil {
				return nil, err
			}
		}
	}
	sources := make([]nextEntry, len(bounds))
	for i, start := range bounds {
		end := runs.Length()
		if i+1 < len(bounds) {
			end = bounds[i+1]
		}
		r := bufio.NewReaderSize(runs.Section(start, end-start), 32<<10)
		sources[i] = func() (*format.Entry, error) { return a.read(r) }
	}
	return newMerge(sources)
}

// readBatch reads about runSize bytes of entries. At the end of r, it returns the
// remaining entries and io.EOF.
func (a *Sorter) readBatch(r io.Reader) (batch []*format.Entry, err error) {
	for size := 0; size < runSize; {
		e, err := a.read(r)
		if err != nil {
			return batch, err
		}
		batch = append(batch, e)
		size += 200 + len(e.Path) + len(e.Target) + 64*len(e.Chunks)
	}
	return batch, nil
}

// nextEntry returns the next entry of a run, or io.EOF at its end.
type nextEntry func() (*format.Entry, error)

func fromSlice(entries []*format.Entry) nextEntry {
	return func() (*format.Entry, error) {
		if len(entries) == 0 {
			return nil, io.EOF
		}
		e := entries[0]
		entries = entries[1:]
		return e, nil
	}
}

// merge is a heap of runs, ordered by the path of their next entry. If paths are
// equal, the earlier run comes first.
type merge []*sortedRun

type sortedRun struct {
	number int
	entry  *format.Entry
	next   nextEntry
}

func newMerge(sources []nextEntry) (merge, error) {
	var m merge
	for i, next := range sources {
		e, err := next()
		if errors.Is(err, io.EOF) {
			continue
		} else if err != nil {
			return nil, err
		}
		m = append(m, &sortedRun{number: i, entry: e, next: next})
	}
	heap.Init(&m)
	return m, nil
}

// advance replaces the entry of the first run by the next entry of this run. If there
// is none, it removes the run.
func (m *merge) advance() error {
	e, err := (*m)[0].next()
	switch {
	case errors.Is(err, io.EOF):
		heap.Pop(m)
		return nil
	case err != nil:
		return err
	}
	(*m)[0].entry = e
	heap.Fix(m, 0)
	return nil
}

func (m merge) Len() int      { return len(m) }
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)   { *m = append(*m, x.(*sortedRun)) }

func (m merge) Less(i, j int) bool {
	if c := format.ComparePaths(m[i].entry.Path, m[j].entry.Path); c != 0 {
		return c < 0
	}
	return m[i].number < m[j].number
}

func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
