package files

import (
	"context"
	"sort"
)

// finder looks entries up, cheaply where they come in path order. It serves
// one goroutine.
type finder struct {
	pages   pageReader
	page    int
	entries []*entry // of that page, nil = not read
}

// find gives the entry at path, or nil.
func (f *finder) find(ctx context.Context, path string) (*entry, error) {
	m := f.pages.m
	if len(m.root.pages) == 0 {
		return nil, nil
	}
	if i := m.pageOf(path); f.entries == nil || f.page != i {
		entries, err := f.pages.page(ctx, i)
		if err != nil {
			return nil, err
		}
		f.page, f.entries = i, entries
	}
	i, ok := searchEntries(f.entries, path)
	if !ok {
		return nil, nil
	}
	return f.entries[i], nil
}

// find gives the entry at path, or nil.
func (m *manifest) find(ctx context.Context, path string) (*entry, error) {
	f := finder{pages: pageReader{m: m}}
	return f.find(ctx, path)
}

// searchEntries gives the index of the entry at path.
func searchEntries(entries []*entry, path string) (int, bool) {
	return sort.Find(len(entries), func(i int) int { return comparePaths(path, entries[i].path) })
}
