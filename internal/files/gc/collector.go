package gc

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// CollectionMarks is the database's list of marked objects, which a collection may
// delete.
type CollectionMarks interface {
	// Marked returns the keys of an organisation's objects that the next deletion
	// may include, and the epoch of that list. The database accepts a reference to
	// a snapshot only while the epoch of the snapshot's Ref is current.
	Marked(ctx context.Context, org string) (epoch int64, keys []string, err error)
}

// Marks are the objects that may be deleted in an epoch.
type Marks struct {
	Org   string
	Epoch int64
	Keys  map[string]bool // keys of the marked objects
	// Doubtful holds the keys of packs that are marked, have a marked replacement, or
	// are known to be missing (see commit.PrepareMarkedBase).
	Doubtful map[string]bool
}

// Marked returns the marked objects of an organisation. If g.Database is nil, no
// objects are marked.
func (g *Collector) Marked(ctx context.Context, org string) (Marks, error) {
	c := Marks{Org: org}
	if g.Database == nil {
		return c, nil
	}
	epoch, keys, err := g.Database.Marked(ctx, org)
	if err != nil {
		return c, fmt.Errorf("listing marked objects: %w", err)
	}
	c.Epoch, c.Keys, c.Doubtful = epoch, make(map[string]bool, len(keys)), make(map[string]bool, len(keys))
	for _, k := range keys {
		c.Keys[k], c.Doubtful[pack.FirstKey(k)] = true, true
	}
	return c, nil
}

// IsPackMarked reports whether a pack or a replacement of it may be deleted.
func (c *Marks) IsPackMarked(id string) bool {
	return len(c.Keys) > 0 && c.Doubtful[pack.Key(c.Org, id)]
}

// Collector deletes unreferenced objects of a store and validates snapshots. It is
// safe for concurrent use.
type Collector struct {
	Packs     *pack.Store
	Manifests *manifest.Store
	Index     pack.ChunkIndex
	Database  CollectionMarks // nil if no garbage is collected
}
