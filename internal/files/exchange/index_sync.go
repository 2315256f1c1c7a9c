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

// dropBatch is how many packs are dropped from the index at once.
const dropBatch = 1000

// SyncIndex updates the chunk index from the organisation's packs: it reads the
// footers of packs that the index lacks and drops those that are deleted. It may
// run beside commits. Packs that a running commit may still delete are left out:
// those that were not sent and are younger than a day. SyncIndex continues after
// an unreadable footer and returns the first such error.
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
	for info, err := range x.commits.Packs.List(ctx, pack.Key(org, "")) {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		id := strings.TrimPrefix(info.Key, pack.Key(org, ""))
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

// learn adds a listed pack to the index. It may be deleted by now.
func (x *Exchanger) learn(ctx context.Context, org, id string) error {
	segments, err := x.commits.Packs.Footer(ctx, org, id)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return x.commits.Index.Add(org, id, pack.ChunksOf(segments))
}

// forget drops packs that a listing lacked, unless they were stored since. A
// dropped pack is never added again.
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
