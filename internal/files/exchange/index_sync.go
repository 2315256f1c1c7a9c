package exchange

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/pack"
)

// dropBatch is how many packs are forgotten at once.
const dropBatch = 1000

// Sync brings the chunk index up to the organisation's packs: it reads the
// footers of those that the index lacks and forgets those that are gone.
// Commits may go on meanwhile, so packs that might belong to one, which deletes
// them when it fails, are left out: those that were not sent and are younger
// than a day. A pack whose footer cannot be read is passed
// over; the first such error is returned in the end.
func (x *Exchanger) SyncIndex(ctx context.Context, org string) error {
	if err := pack.CheckOrg(org); err != nil || x.commits.Index == nil {
		return err
	}
	known, stop := iter.Pull(x.commits.Index.Packs(org))
	defer stop()
	var first error
	var gone []string
	forget := func(id string) error {
		gone = append(gone, id)
		if len(gone) < dropBatch {
			return nil
		}
		batch := gone
		gone = nil
		return x.forget(ctx, org, batch)
	}
	next, more := known()
	for info, err := range x.commits.Packs.List(ctx, pack.PackKey(org, "")) {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		id := strings.TrimPrefix(info.Key, pack.PackKey(org, ""))
		for ; more && next < id; next, more = known() {
			if err := forget(next); err != nil {
				return err
			}
		}
		if more && next == id {
			next, more = known()
			continue
		}
		if !x.settled(id) {
			continue
		}
		if err := x.learn(ctx, org, id); err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for ; more; next, more = known() {
		if err := forget(next); err != nil {
			return err
		}
	}
	if err := x.forget(ctx, org, gone); err != nil {
		return err
	}
	return first
}

// learn adds a pack that the store listed; it may be gone again.
func (x *Exchanger) learn(ctx context.Context, org, id string) error {
	segments, err := x.commits.Packs.Footer(ctx, org, id)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return x.commits.Index.Add(org, id, pack.ChunksOf(segments))
}

// forget drops packs that a listing lacked, except for those that came after
// it: a dropped pack never comes back.
func (x *Exchanger) forget(ctx context.Context, org string, packs []string) error {
	gone, err := x.commits.Packs.Missing(ctx, org, packs)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := x.commits.Index.Drop(org, gone); err != nil {
		return fmt.Errorf("forgetting packs that are gone: %w", err)
	}
	return nil
}
