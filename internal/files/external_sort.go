package files

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
)

// arrivals keeps the entries of an archive as they come and gives them back in
// path order; entries of one path in the order of their arrival. It spools
// them, so that memory does not grow with the tree.
type externalSort struct {
	dir string
	log *spool // each entry with its length before it
	// packs are those that spooled places name.
	packs packTable

	seed    maphash.Seed
	offsets map[uint64]int64 // hash of a path → its latest entry in log; nil until find is called
}

// runSize is how much of the log is sorted at once.
const runSize = 8 << 20

func newExternalSort(dir string) *externalSort {
	return &externalSort{dir: dir, log: newSpool(dir), seed: maphash.MakeSeed()}
}

func (a *externalSort) close() error { return a.log.Close() }

func (a *externalSort) add(e *entry) error {
	if a.offsets != nil {
		a.offsets[maphash.String(a.seed, e.path)] = a.log.length()
	}
	return a.write(a.log, e)
}

// write spools an entry.
func (a *externalSort) write(w io.Writer, e *entry) error {
	b := e.appendStored(make([]byte, 8, 256), &a.packs)
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	_, err := w.Write(b)
	return err
}

// read reads what write wrote; io.EOF at the end.
func (a *externalSort) read(r io.Reader) (*entry, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.LittleEndian.Uint64(head[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("reading a spooled entry: %w", err)
	}
	return decodeEntry(&decoder{b: b}, a.packs.ids)
}

// find gives the latest entry at path, or nil.
func (a *externalSort) find(path string) (*entry, error) {
	if a.offsets == nil {
		if err := a.indexLog(); err != nil {
			return nil, err
		}
	}
	offset, ok := a.offsets[maphash.String(a.seed, path)]
	if !ok {
		return nil, nil
	}
	e, err := a.read(a.log.section(offset, a.log.length()-offset))
	if err != nil || e.path != path {
		return nil, err
	}
	return e, nil
}

func (a *externalSort) indexLog() error {
	a.offsets = map[uint64]int64{}
	for offset := int64(0); offset < a.log.length(); {
		var head [8]byte
		if _, err := a.log.ReadAt(head[:], offset); err != nil {
			return err
		}
		e, err := a.read(a.log.section(offset, a.log.length()-offset))
		if err != nil {
			return err
		}
		a.offsets[maphash.String(a.seed, e.path)] = offset
		offset += 8 + int64(binary.LittleEndian.Uint64(head[:]))
	}
	return nil
}

// sorted gives the entries in path order.
func (a *externalSort) sorted() iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		runs := newSpool(a.dir)
		defer func() { _ = runs.Close() }() // read only by now
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

// sortRuns cuts the log into sorted runs and stands at their beginnings.
func (a *externalSort) sortRuns(runs *spool) (merge, error) {
	log := bufio.NewReaderSize(a.log.section(0, a.log.length()), 64<<10)
	var bounds []int64
	for more := true; more; {
		batch, err := a.readBatch(log)
		if more = err == nil; !more && !errors.Is(err, io.EOF) {
			return nil, err
		}
		slices.SortStableFunc(batch, func(x, y *entry) int { return comparePaths(x.path, y.path) })
		if !more && len(bounds) == 0 {
			return newMerge([]nextEntry{fromSlice(batch)})
		}
		bounds = append(bounds, runs.length())
		for _, e := range batch {
			if err := a.write(runs, e); err != nil {
				return nil, err
			}
		}
	}
	sources := make([]nextEntry, len(bounds))
	for i, start := range bounds {
		end := runs.length()
		if i+1 < len(bounds) {
			end = bounds[i+1]
		}
		r := bufio.NewReaderSize(runs.section(start, end-start), 32<<10)
		sources[i] = func() (*entry, error) { return a.read(r) }
	}
	return newMerge(sources)
}

// readBatch reads about runSize bytes of entries; with io.EOF, the last ones.
func (a *externalSort) readBatch(r io.Reader) (batch []*entry, err error) {
	for size := 0; size < runSize; {
		e, err := a.read(r)
		if err != nil {
			return batch, err
		}
		batch = append(batch, e)
		size += 200 + len(e.path) + len(e.target) + 64*len(e.chunks)
	}
	return batch, nil
}

// nextEntry gives the next entry of a run, io.EOF at its end.
type nextEntry func() (*entry, error)

func fromSlice(entries []*entry) nextEntry {
	return func() (*entry, error) {
		if len(entries) == 0 {
			return nil, io.EOF
		}
		e := entries[0]
		entries = entries[1:]
		return e, nil
	}
}

// merge is a heap of runs, the one with the next entry first. Of equal paths,
// that of the earlier run comes first.
type merge []*run

type run struct {
	number int
	entry  *entry
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
		m = append(m, &run{number: i, entry: e, next: next})
	}
	heap.Init(&m)
	return m, nil
}

// advance moves the first run on.
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
func (m *merge) Push(x any)   { *m = append(*m, x.(*run)) }

func (m merge) Less(i, j int) bool {
	if c := comparePaths(m[i].entry.path, m[j].entry.path); c != 0 {
		return c < 0
	}
	return m[i].number < m[j].number
}

func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
