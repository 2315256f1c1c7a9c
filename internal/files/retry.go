package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
)

// errPackGone says that a commit built upon a pack that is not there. The
// index has forgotten it by then.
var errPackGone = errors.New("a pack that the chunk index named is gone")

// checkBorrowed looks for the packs that nothing but the index says exist, as
// far as the new tree names them.
func (c *commit) checkBorrowed(ctx context.Context) error {
	var borrowed []string
	for _, id := range c.manifest.packs.ids {
		borrowed = append(borrowed, c.dedup.borrowedAs(id)...)
	}
	gone, err := c.packs.missing(ctx, c.org, borrowed)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := c.index.Drop(c.org, gone); err != nil {
		return fmt.Errorf("forgetting packs that are gone: %w", err)
	}
	return errPackGone
}

// twice tries a commit again when it built upon a pack that was deleted
// meanwhile.
func retryOnce(commit func() (Ref, error)) (Ref, error) {
	ref, err := commit()
	if errors.Is(err, errPackGone) || errors.Is(err, ErrStale) {
		ref, err = commit()
	}
	return ref, tryAgain(err)
}

// tryAgain tells the user what can be done about a pack that is gone.
func tryAgain(err error) error {
	if !errors.Is(err, errPackGone) && !errors.Is(err, ErrStale) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Stored content that this builds upon was deleted meanwhile. Try again.",
	}
}
