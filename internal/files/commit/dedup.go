package commit

import (
	"context"
	"slices"
	"sync"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/pack"
)

// dedup finds chunks that are stored already, in packs that are not marked. It is
// safe for concurrent use.
type dedup struct {
	ctx    context.Context // of the commit
	org    string
	Index  pack.ChunkIndex // nil for none
	marked gc.Marks
	places *gc.PlaceChecker
	Chunks *chunkSet

	mu        sync.Mutex          // guards FromIndex
	FromIndex map[string][]string // by ID, for packs that only the index knew: their names in the index
}

// Find returns the place of a stored chunk with the hash h. raw is the size of its
// content in bytes. It searches f, then s.Chunks, then the index. If the chunk is
// not found, the second result is false.
func (s *dedup) Find(f *parentChunks, h format.Hash, raw uint32) (format.Place, bool, error) {
	if at, ok := f.find(h); ok {
		if holds, err := s.places.Usable(s.ctx, &at); holds || err != nil {
			return at, holds, err
		}
	}
	at, ok, err := s.Chunks.find(h)
	if ok || err != nil || s.Index == nil {
		return at, ok, err
	}
	known, ok, err := s.Index.Find(s.org, h)
	at = known.Place
	if !ok || err != nil || known.Size != raw || s.marked.Keys[pack.Key(s.org, at.Pack)] {
		return format.Place{}, false, nil // errors of the index are ignored: the chunk is then stored again
	}
	packID := pack.FirstKey(at.Pack)
	s.mu.Lock()
	defer s.mu.Unlock()
	if names := s.FromIndex[packID]; !slices.Contains(names, at.Pack) {
		s.FromIndex[packID] = append(names, at.Pack)
	}
	at.Pack = packID
	return at, true, nil
}

// namesInIndex returns the names by which the index knows a pack.
func (s *dedup) namesInIndex(packID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.FromIndex[packID]
}
