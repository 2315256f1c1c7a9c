package commit

import (
	"context"
	"slices"
	"sync"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/pack"
)

// dedup finds chunks that are stored already and not marked. It is safe for
// concurrent use.
type dedup struct {
	ctx    context.Context // of the commit
	org    string
	Index  pack.ChunkIndex // nil for none
	marked gc.Marks
	places *gc.PlaceChecker
	Chunks *chunkSet

	mu        sync.Mutex          // guards FromIndex
	FromIndex map[string][]string // packs that were found only by the index, and their names there
}

// Find returns the place of a chunk of raw bytes, which may be one of f.
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
		return format.Place{}, false, nil // a failing index only costs space
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
