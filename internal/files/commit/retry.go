package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
)

// errPackGone says that a commit built upon a pack that is not there. The
// index has forgotten it by then.
var ErrPackGone = errors.New("a pack that the chunk index named is gone")

// checkBorrowed looks for the packs that nothing but the index says exist, as
// far as the new tree names them.
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
		return fmt.Errorf("forgetting packs that are gone: %w", err)
	}
	return ErrPackGone
}

// twice tries a commit again when it built upon a pack that was deleted
// meanwhile.
func RetryOnce(commit func() (manifest.Ref, error)) (manifest.Ref, error) {
	ref, err := commit()
	if errors.Is(err, ErrPackGone) || errors.Is(err, gc.ErrStale) {
		ref, err = commit()
	}
	return ref, TryAgain(err)
}

// tryAgain tells the user what can be done about a pack that is gone.
func TryAgain(err error) error {
	if !errors.Is(err, ErrPackGone) && !errors.Is(err, gc.ErrStale) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Stored content that this builds upon was deleted meanwhile. Try again.",
	}
}
