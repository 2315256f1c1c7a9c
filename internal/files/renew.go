package files

import (
	"context"
	"errors"
	"fmt"
)

// ErrStale says that a tree is being collected, or was: it must be committed
// anew.
var ErrStale = errors.New("files: the tree is being collected")

// Renew gives ref with the epoch of now, after it has checked that the tree is
// there, whole, and that nothing that it needs is condemned; else ErrStale. A
// root that is condemned alone gets a successor: a collection that began between
// a commit and its naming condemns it at once. Renew serves those whose commit
// began in an epoch that is over.
func (g *collector) Renew(ctx context.Context, org string, ref Ref) (Ref, error) {
	if err := checkOrg(org); err != nil {
		return Ref{}, err
	}
	c, err := g.marked(ctx, org)
	if err != nil {
		return Ref{}, err
	}
	at, err := g.locateRoot(ctx, org, ref.Digest, c)
	if err == nil && !at.valid {
		at.valid, err = g.recreateRoot(ctx, org, ref.Digest, c, at)
	}
	if err == nil && at.valid {
		err = g.deleteStaleRoots(ctx, org, c, at.refused)
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
