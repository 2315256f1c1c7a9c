package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"golang.org/x/sync/errgroup"
)

// ErrStale says that a tree is being collected, or was: it must be committed
// anew.
var ErrStale = errors.New("files: the tree is being collected")

// errPackGone says that a commit built upon a pack that is not there. The
// index has forgotten it by then.
var errPackGone = errors.New("a pack that the chunk index named is gone")

// parallelStats is how many packs are looked for at once.
const parallelStats = 16

// Renew gives ref with the epoch of now, after it has checked that the tree is
// there, whole, and that nothing that it needs is condemned; else ErrStale. A
// root that is condemned alone gets a successor: a collection that began between
// a commit and its naming condemns it at once. Renew serves those whose commit
// began in an epoch that is over.
func (l *Library) Renew(ctx context.Context, org string, ref Ref) (Ref, error) {
	if err := checkOrg(org); err != nil {
		return Ref{}, err
	}
	c, err := l.marked(ctx, org)
	if err != nil {
		return Ref{}, err
	}
	at, err := l.locateRoot(ctx, org, ref.Digest, c)
	if err == nil && !at.valid {
		at.valid, err = l.recreateRoot(ctx, org, ref.Digest, c, at)
	}
	if err == nil && at.valid {
		err = l.deleteStaleRoots(ctx, org, c, at.refused)
	}
	if err != nil {
		return Ref{}, err
	}
	if !at.valid {
		return Ref{}, fmt.Errorf("%w: something of %s is condemned, or gone", ErrStale, ref.Digest)
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
		borrowed = append(borrowed, c.stock.borrowedAs(id)...)
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
