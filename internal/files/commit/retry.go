package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// ErrPackDeleted means that a commit refers to a pack that is missing. The index does
// not list it any more.
var ErrPackDeleted = errors.New("a pack of the chunk index is deleted")

// checkIndexedPacks verifies that packs found only by the index exist, as far as the
// new tree refers to them.
func (c *Commit) checkIndexedPacks(ctx context.Context) error {
	var packs []string
	for _, id := range c.Manifest.Packs.IDs {
		packs = append(packs, c.Dedup.namesInIndex(id)...)
	}
	gone, err := c.Packs.Missing(ctx, c.Org, packs)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := c.Index.Drop(c.Org, gone); err != nil {
		return fmt.Errorf("dropping deleted packs from the index: %w", err)
	}
	return ErrPackDeleted
}

// RetryOnce repeats a commit that referred to a pack that was deleted meanwhile.
func RetryOnce(commit func() (manifest.Ref, error)) (manifest.Ref, error) {
	ref, err := commit()
	if errors.Is(err, ErrPackDeleted) || errors.Is(err, gc.ErrStale) {
		ref, err = commit()
	}
	return ref, TryAgain(err)
}

// TryAgain turns the errors of a deleted pack into a message for the user.
func TryAgain(err error) error {
	if !errors.Is(err, ErrPackDeleted) && !errors.Is(err, gc.ErrStale) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Stored content that this builds upon was deleted meanwhile. Try again.",
	}
}
