package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"golang.org/x/sync/errgroup"
)

// ErrStale says that a tree is being collected, or was: it must be committed
// anew.
var ErrStale = errors.New("content: the tree is being collected")

// errPackGone says that a commit built upon a pack that is not there. The
// index has forgotten it by then.
var errPackGone = errors.New("a pack that the chunk index named is gone")

// parallelStats is how many packs are looked for at once.
const parallelStats = 16

// Renew gives ref with the epoch of now, after it has checked that the tree is
// there, with all its packs, and that nothing of it is condemned; else
// ErrStale. It serves those whose commit began in an epoch that is over.
func (l *Library) Renew(ctx context.Context, org string, ref Ref) (Ref, error) {
	c, err := l.condemned(ctx, org)
	if err != nil {
		return Ref{}, err
	}
	m, err := l.manifest(ctx, org, ref.Digest)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return Ref{}, fmt.Errorf("%w: %w", ErrStale, err)
	case err != nil:
		return Ref{}, err
	case c.keys[manifestKey(org, ref.Digest)]:
		return Ref{}, fmt.Errorf("%w: its manifest is condemned", ErrStale)
	}
	for _, id := range m.root.packs {
		if c.pack(id) {
			return Ref{}, fmt.Errorf("%w: its pack %s is condemned", ErrStale, id)
		}
	}
	missing, err := l.missing(ctx, org, m.root.packs)
	if err != nil {
		return Ref{}, err
	}
	if len(missing) > 0 {
		return Ref{}, fmt.Errorf("%w: its pack %s is gone", ErrStale, missing[0])
	}
	ref.Epoch = c.epoch
	return ref, nil
}

// missing gives those of the packs that are not in the store.
func (l *Library) missing(ctx context.Context, org string, packs []string) ([]string, error) {
	gone := make([]bool, len(packs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelStats)
	for i, id := range packs {
		group.Go(func() error {
			there, err := l.exists(ctx, packKey(org, id))
			gone[i] = !there
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []string
	for i, id := range packs {
		if gone[i] {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// checkBorrowed looks for the packs that nothing but the index says exist, as
// far as the new tree names them.
func (c *commit) checkBorrowed(ctx context.Context) error {
	var borrowed []string
	for _, id := range c.manifest.packs.ids {
		if c.stock.isBorrowed(id) {
			borrowed = append(borrowed, id)
		}
	}
	gone, err := c.lib.missing(ctx, c.org, borrowed)
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := c.lib.index.Drop(c.org, gone); err != nil {
		return fmt.Errorf("forgetting packs that are gone: %w", err)
	}
	return errPackGone
}

// twice tries a commit again when it built upon a pack that was deleted
// meanwhile.
func twice(commit func() (Ref, error)) (Ref, error) {
	ref, err := commit()
	if errors.Is(err, errPackGone) {
		ref, err = commit()
	}
	return ref, tryAgain(err)
}

// tryAgain tells the user what can be done about a pack that is gone.
func tryAgain(err error) error {
	if !errors.Is(err, errPackGone) {
		return err
	}
	return &stint.Error{
		Kind: stint.Unavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Stored content that this builds upon was deleted meanwhile. Try again.",
	}
}
