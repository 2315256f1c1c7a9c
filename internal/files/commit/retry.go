package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// ErrPackDeleted means that a commit refers to a pack that was deleted although the
// chunk index listed it. The pack has been removed from the chunk index.
var ErrPackDeleted = errors.New("a pack in the chunk index has been deleted")

// checkIndexedPacks verifies that the packs of chunks that were found in the chunk
// index exist. It checks only packs that the new tree refers to. If packs are
// missing, it removes them from the chunk index and returns ErrPackDeleted.
func (c *Commit) checkIndexedPacks(ctx context.Context) error {
	var packs []string
	for _, id := range c.Manifest.Packs.IDs {
		packs = append(packs, c.Dedup.namesInIndex(id)...)
	}
	missing, err := c.Packs.Missing(ctx, c.Org, packs)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := c.Index.Drop(c.Org, missing); err != nil {
		return fmt.Errorf("removing deleted packs from the chunk index: %w", err)
	}
	return ErrPackDeleted
}

// RetryOnce calls commit. If the error is ErrPackDeleted or gc.ErrStale, RetryOnce
// calls commit once more.
func RetryOnce(commit func() (manifest.Ref, error)) (manifest.Ref, error) {
	ref, err := commit()
	if errors.Is(err, ErrPackDeleted) || errors.Is(err, gc.ErrStale) {
		ref, err = commit()
	}
	return ref, TryAgain(err)
}

// TryAgain turns ErrPackDeleted and gc.ErrStale into a message for the user. It
// returns other errors unchanged.
func TryAgain(err error) error {
	if !errors.Is(err, ErrPackDeleted) && !errors.Is(err, gc.ErrStale) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Stored content that the new version refers to was deleted in the meantime. Try again.",
	}
}
