package exchange

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/pack"
)

// dropBatch is the maximum number of packs that are dropped from the index at once.
const dropBatch = 1000

// SyncIndex updates the chunk index from the organisation's packs: it reads the
// footers of packs that the index lacks and drops those that are deleted. It may
// run concurrently with commits. It leaves out packs that a running commit may still
// delete: packs that PutChunks did not store and that are younger than a day.
// SyncIndex continues after an unreadable footer and returns the first such error.
func (x *Exchanger) SyncIndex(ctx context.Context, org string) error {
	if err := pack.CheckOrg(org); err != nil || x.commits.Index == nil {
		return err
	}
	gone := map[string]bool{} // packs of the index that the listing lacks
	for id := range x.commits.Index.Packs(org) {
		gone[id] = true
	}
	var first error
	for info, err := range x.commits.Packs.List(ctx, pack.Key(org, "")) {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		id := strings.TrimPrefix(info.Key, pack.Key(org, ""))
		if gone[id] || !x.settled(id) {
			delete(gone, id)
			continue
		}
		if err := x.learn(ctx, org, id); err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(gone)), dropBatch) {
		if err := x.forget(ctx, org, batch); err != nil {
			return err
		}
	}
	return first
}

// learn adds a pack to the index, unless the pack was deleted after it was listed.
func (x *Exchanger) learn(ctx context.Context, org, id string) error {
	segments, err := x.commits.Packs.Footer(ctx, org, id)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return x.commits.Index.Add(org, id, segments)
}

// forget drops packs from the index that were missing in a listing of the store. It
// keeps packs that exist by now, because a dropped pack is never added again.
func (x *Exchanger) forget(ctx context.Context, org string, packs []string) error {
	gone, err := x.commits.Packs.Missing(ctx, org, packs)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := x.commits.Index.Drop(org, gone); err != nil {
		return fmt.Errorf("dropping deleted packs from the index: %w", err)
	}
	return nil
}
