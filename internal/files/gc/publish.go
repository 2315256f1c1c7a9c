package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/store"
)

// ErrNotPublished is wrapped by the errors of Publish if the snapshots could not
// be validated. If a collection marked or deleted parts of them, the error wraps
// ErrStale, too.
var ErrNotPublished = errors.New("files: the snapshots cannot be referred to")

// Publish makes the database refer to snapshots. It calls write with the earliest
// epoch of refs, which write passes to the database. If another collection has begun
// since, write must return store.ErrEpoch. Then Publish validates the snapshots in
// the current epoch and calls write again. Other errors of write are returned as they
// are.
func (g *Collector) Publish(ctx context.Context, org string, refs []manifest.Ref, write func(epoch int64) error) error {
	epoch := minEpoch(refs)
	for {
		err := write(epoch)
		if !errors.Is(err, store.ErrEpoch) {
			return err
		}
		renewed := make([]manifest.Ref, len(refs))
		for i, ref := range refs {
			if renewed[i], err = g.Renew(ctx, org, ref); err != nil {
				return fmt.Errorf("%w: %w", ErrNotPublished, err)
			}
		}
		epoch = minEpoch(renewed)
	}
}

// minEpoch returns the earliest epoch of refs, 0 if there are none.
func minEpoch(refs []manifest.Ref) (epoch int64) {
	for i, ref := range refs {
		if i == 0 || ref.Epoch < epoch {
			epoch = ref.Epoch
		}
	}
	return epoch
}
