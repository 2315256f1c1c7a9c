package pack

import (
	"fmt"
	"iter"
	"strings"

	"github.com/stint-dev/stint/internal/files/format"
)

// ChunkIndex finds chunks of an organisation in its packs. It is derived data: a
// chunk that it lacks is stored again. *index.Index implements it and documents
// the methods.
type ChunkIndex interface {
	Find(org string, h format.Hash) (format.Chunk, bool, error)
	Add(org, packID string, segments []format.Segment) error
	Has(org, packID string) bool
	Packs(org string) iter.Seq[string]
	Drop(org string, packs []string) error
}

// Reindex drops the packs with the keys in group from the index and adds the
// compacted pack with the key to. If x is nil, Reindex does nothing.
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
		return fmt.Errorf("dropping a pack from the index: %w", err)
	}
	if err := x.Add(org, strings.TrimPrefix(to, prefix), segments); err != nil {
		return fmt.Errorf("adding a compacted pack to the index: %w", err)
	}
	return nil
}
