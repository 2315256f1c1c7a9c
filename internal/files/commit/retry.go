package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// ErrPackGone means that a commit refers to a pack that is missing. The index does
// not list it any more.
var ErrPackGone = errors.New("a pack that the chunk index named is gone")

// checkBorrowed verifies that packs found only by the index exist, as far as the
// new tree refers to them.
func (c *Commit) checkBorrowed(ctx context.Context) error {
	var borrowed []string
	for _, id := range c.Manifest.Packs.IDs {
		borrowed = append(borrowed, c.Dedup.borrowedAs(id)...)
	}
	gone, err := c.Packs.Missing(ctx, c.Org, borrowed)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := c.Index.Drop(c.Org, gone); err != nil {
		return fmt.Errorf("dropping deleted packs from the index: %w", err)
	}
	return ErrPackGone
}

// RetryOnce repeats a commit that referred to a pack that was deleted meanwhile.
func RetryOnce(commit func() (manifest.Ref, error)) (manifest.Ref, error) {
	ref, err := commit()
	if errors.Is(err, ErrPackGone) || errors.Is(err, gc.ErrStale) {
		ref, err = commit()
	}
	return ref, TryAgain(err)
}

// TryAgain turns the errors of a deleted pack into a message for the user.
func TryAgain(err error) error {
	if !errors.Is(err, ErrPackGone) && !errors.Is(err, gc.ErrStale) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Stored content that this builds upon was deleted meanwhile. Try again.",
	}
}
