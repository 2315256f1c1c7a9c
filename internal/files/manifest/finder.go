package manifest

import (
	"context"
	"sort"

	"github.com/stint-dev/stint/internal/files/format"
)

// Finder looks up entries, cheaply if the paths ascend. It serves one goroutine.
type Finder struct {
	Pages   PageReader
	page    int
	entries []*format.Entry // of that page; nil if not read
}

// Find returns the entry at path, or nil.
func (f *Finder) Find(ctx context.Context, path string) (*format.Entry, error) {
	m := f.Pages.M
	if len(m.Root.Pages) == 0 {
		return nil, nil
	}
	if i := m.PageOf(path); f.entries == nil || f.page != i {
		entries, err := f.Pages.Page(ctx, i)
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

// Find returns the entry at path, or nil.
func (m *Manifest) Find(ctx context.Context, path string) (*format.Entry, error) {
	f := Finder{Pages: PageReader{M: m}}
	return f.Find(ctx, path)
}

// searchEntries returns the index of the entry at path.
func searchEntries(entries []*format.Entry, path string) (int, bool) {
	return sort.Find(len(entries), func(i int) int { return format.ComparePaths(path, entries[i].Path) })
}
