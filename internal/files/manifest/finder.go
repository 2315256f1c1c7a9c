package manifest

import (
	"context"
	"sort"

	"github.com/stint-dev/stint/internal/files/format"
)

// Finder looks up entries. It keeps the page that it read last, so lookups in path
// order read each page once. It is not safe for concurrent use.
type Finder struct {
	Pages   PageReader
	page    int             // index of the page that was read last
	entries []*format.Entry // of this page; nil if no page was read
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

// searchEntries returns the index of the entry at path, and whether it exists.
func searchEntries(entries []*format.Entry, path string) (int, bool) {
	return sort.Find(len(entries), func(i int) int { return format.ComparePaths(path, entries[i].Path) })
}
