package files

import (
	"context"
	"slices"
	"sync"
)

// stock finds the chunks that a commit need not store. What is condemned does
// not count. It is safe for concurrent use.
type dedup struct {
	ctx        context.Context // of the commit
	org        string
	index      Index // nil = none
	marked     marked
	relocation *relocation
	chunks     *chunkSet

	mu       sync.Mutex          // guards what follows
	borrowed map[string][]string // packs that only the index knows to exist, and by which names
}

// find gives the place of a chunk of so many bytes, which may be one of f.
func (s *dedup) find(f *parentChunks, h hash, raw uint32) (place, bool, error) {
	if at, ok := f.find(h); ok {
		if holds, err := s.relocation.hold(s.ctx, &at); holds || err != nil {
			return at, holds, err
		}
	}
	at, ok, err := s.chunks.find(h)
	if ok || err != nil || s.index == nil {
		return at, ok, err
	}
	there, ok, err := s.index.Find(s.org, h)
	if !ok || err != nil || there.Raw != raw || s.marked.keys[packKey(s.org, there.Pack)] {
		return place{}, false, nil // an index that fails only costs space
	}
	pack := firstKey(there.Pack)
	s.mu.Lock()
	defer s.mu.Unlock()
	if names := s.borrowed[pack]; !slices.Contains(names, there.Pack) {
		s.borrowed[pack] = append(names, there.Pack)
	}
	return place{pack: pack, offset: there.Offset, stored: there.Stored, crc: there.CRC}, true, nil
}

// borrowedAs gives the names under which nothing but the index says that a pack
// exists.
func (s *dedup) borrowedAs(pack string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.borrowed[pack]
}
