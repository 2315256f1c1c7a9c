package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// ErrStale says that a tree is being collected, or was: it must be committed
// anew.
var ErrStale = errors.New("files: the tree is being collected")

// Renew gives ref with the epoch of now, after it has checked that the tree is
// there, whole, and that nothing that it needs is condemned; else ErrStale. A
// root that is condemned alone gets a successor: a collection that began between
// a commit and its naming condemns it at once. Renew serves those whose commit
// began in an epoch that is over.
func (g *Collector) Renew(ctx context.Context, org string, ref manifest.Ref) (manifest.Ref, error) {
	if err := pack.CheckOrg(org); err != nil {
		return manifest.Ref{}, err
	}
	c, err := g.Marked(ctx, org)
	if err != nil {
		return manifest.Ref{}, err
	}
	at, err := g.LocateRoot(ctx, org, ref.Digest, c)
	if err == nil && !at.Valid {
		at.Valid, err = g.recreateRoot(ctx, org, ref.Digest, c, at)
	}
	if err == nil && at.Valid {
		err = g.DeleteStaleRoots(ctx, org, c, at.Refused)
	}
	if err != nil {
		return manifest.Ref{}, err
	}
	if !at.Valid {
		return manifest.Ref{}, fmt.Errorf("%w: something of %s is condemned, or gone", ErrStale, ref.Digest)
	}
	ref.Epoch = c.Epoch
	return ref, nil
}
