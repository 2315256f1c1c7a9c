package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// ErrStale means that a collection deletes or deleted parts of a tree. The tree
// must be committed again.
var ErrStale = errors.New("files: the tree is being deleted by a collection")

// Renew validates a tree and returns ref with the current epoch. If the tree is
// incomplete or a part of it is marked, Renew returns ErrStale. If only the root is
// marked, Renew writes another root instead of returning ErrStale. This case occurs
// if a collection begins between a commit and its publication: the collection marks
// the commit's root at once, but marks only packs older than the grace period.
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
		return manifest.Ref{}, fmt.Errorf("%w: a part of %s is marked or deleted", ErrStale, ref.Digest)
	}
	ref.Epoch = c.Epoch
	return ref, nil
}
