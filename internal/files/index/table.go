package index

import (
	"bytes"
	"maps"
	"slices"
)

// record is a chunk in tables and runs.
type record struct {
	hash   Hash
	pack   uint32 // number of the pack in the table or run
	offset uint32
	stored uint32
	raw    uint32
	crc    uint32
}

func (r *record) place(pack string) Place {
	return Place{Pack: pack, Offset: r.offset, Stored: r.stored, Raw: r.raw, CRC: r.crc}
}

// table holds the newest chunks in memory, until they become a run.
type table struct {
	records []record
	before  []int32        // for each record, the previous one of the same hash, or -1
	last    map[Hash]int32 // for each hash, the last record
	names   []string       // of packs, by number
	numbers map[string]uint32
	dead    map[uint32]string // dropped packs
}

func newTable() *table {
	return &table{last: map[Hash]int32{}, numbers: map[string]uint32{}, dead: map[uint32]string{}}
}

func (t *table) add(pack string, chunks []Chunk) {
	n := uint32(len(t.names))
	t.names = append(t.names, pack)
	t.numbers[pack] = n
	for i := range chunks {
		c := &chunks[i]
		before, ok := t.last[c.Hash]
		if !ok {
			before = -1
		}
		t.last[c.Hash] = int32(len(t.records))
		t.before = append(t.before, before)
		t.records = append(t.records, record{c.Hash, n, c.Offset, c.Stored, c.Raw, c.CRC})
	}
}

// find calls visit for the places of h until it returns false.
func (t *table) find(h *Hash, visit func(Place) bool) (more bool) {
	i, ok := t.last[*h]
	if !ok {
		return true
	}
	for ; i >= 0; i = t.before[i] {
		r := &t.records[i]
		if _, dead := t.dead[r.pack]; !dead && !visit(r.place(t.names[r.pack])) {
			return false
		}
	}
	return true
}

func (t *table) has(pack string) bool {
	n, ok := t.numbers[pack]
	_, dead := t.dead[n]
	return ok && !dead
}

// drop marks a pack as dropped if it is in the table.
func (t *table) drop(pack string) {
	if n, ok := t.numbers[pack]; ok {
		t.dead[n] = pack
	}
}

// after returns at most max packs after a name, in order.
func (t *table) after(name string, limit int) []string {
	var all []string
	for i, n := range t.names {
		if _, dead := t.dead[uint32(i)]; !dead && n > name {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all[:min(len(all), limit)]
}

// source returns the content of the table without the packs that are dropped now.
// While the source is read, the table may be searched and packs may be dropped
// from it, but nothing may be added.
func (t *table) source() func(*runWriter) error {
	dead := maps.Clone(t.dead)
	return func(w *runWriter) error {
		return t.write(w, dead)
	}
}

func (t *table) write(w *runWriter, dead map[uint32]string) error {
	sorted := slices.Sorted(maps.Keys(t.numbers))
	number := make([]uint32, len(t.names))
	for _, n := range sorted {
		if _, gone := dead[t.numbers[n]]; gone {
			continue
		}
		number[t.numbers[n]] = w.packs
		if err := w.pack(n); err != nil {
			return err
		}
	}
	order := make([]int32, 0, len(t.records))
	for i := range t.records {
		if _, gone := dead[t.records[i].pack]; !gone {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return bytes.Compare(t.records[a].hash[:], t.records[b].hash[:])
	})
	w.expect(len(order))
	for _, i := range order {
		r := t.records[i]
		r.pack = number[r.pack]
		if err := w.record(&r); err != nil {
			return err
		}
	}
	return nil
}

// width is the length of the longest name of a pack.
func (t *table) width() int {
	n := 1
	for _, name := range t.names {
		n = max(n, len(name))
	}
	return n
}
