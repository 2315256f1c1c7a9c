package files

import (
	"fmt"
	"iter"
	"strings"

	"github.com/stint-dev/stint/internal/files/index"
)

// Index finds chunks of an organisation in its packs. It is derived data: what
// it does not know, or fails to find, is stored again. *index.Index is one,
// and says what the methods do.
type Index interface {
	Find(org string, h index.Hash) (index.Place, bool, error)
	Add(org, pack string, chunks []index.Chunk) error
	Has(org, pack string) bool
	Packs(org string) iter.Seq[string]
	Drop(org string, packs []string) error
}

// chunksOf gives the chunks among segments.
func chunksOf(segments []segment) []index.Chunk {
	chunks := make([]index.Chunk, 0, len(segments))
	for _, s := range segments {
		if s.kind == chunkSegment {
			chunks = append(chunks, index.Chunk{Hash: s.hash, Offset: s.offset, Stored: s.stored, Raw: s.raw, CRC: s.crc})
		}
	}
	return chunks
}

// reindex makes commits build upon what is left of a pack.
func reindex(x Index, org string, group []string, to string, segments []segment) error {
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
	if err := x.Add(org, strings.TrimPrefix(to, prefix), chunksOf(segments)); err != nil {
		return fmt.Errorf("noting a compacted pack: %w", err)
	}
	return nil
}
