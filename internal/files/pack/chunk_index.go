package pack

import (
	"fmt"
	"iter"
	"strings"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/index"
)

// Index finds chunks of an organisation in its packs. It is derived data: what
// it does not know, or fails to find, is stored again. *index.Index is one,
// and says what the methods do.
type ChunkIndex interface {
	Find(org string, h index.Hash) (index.Place, bool, error)
	Add(org, packID string, chunks []index.Chunk) error
	Has(org, packID string) bool
	Packs(org string) iter.Seq[string]
	Drop(org string, packs []string) error
}

// chunksOf gives the chunks among segments.
func ChunksOf(segments []format.Segment) []index.Chunk {
	chunks := make([]index.Chunk, 0, len(segments))
	for _, s := range segments {
		if s.Kind == format.ChunkSegment {
			chunks = append(chunks, index.Chunk{Hash: s.Hash, Offset: s.Offset, Stored: s.Length, Raw: s.Size, CRC: s.CRC})
		}
	}
	return chunks
}

// reindex makes commits build upon what is left of a pack.
func Reindex(x ChunkIndex, org string, group []string, to string, segments []format.Segment) error {
	if x == nil {
		return nil
	}
	prefix := org + "/packs/"
	var names []string
	for _, key := range group {
		names = append(names, strings.TrimPrefix(key, prefix))
	}
	if err := x.Drop(org, names); err != nil {
		return fmt.Errorf("forgetting a pack: %w", err)
	}
	if err := x.Add(org, strings.TrimPrefix(to, prefix), ChunksOf(segments)); err != nil {
		return fmt.Errorf("noting a compacted pack: %w", err)
	}
	return nil
}
