package gc

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Garbage tells what a collection is about to delete.
type CollectionMarks interface {
	// Condemned gives the keys of the organisation's objects that the next
	// deletion may take, and the epoch in which that is so. A digest may be
	// named in the organisation's books only while the epoch of its Ref counts.
	Marked(ctx context.Context, org string) (epoch int64, keys []string, err error)
}

// condemned are the objects that may be deleted in an epoch.
type Marks struct {
	Org   string
	Epoch int64
	Keys  map[string]bool
	// suspect are the keys of packs that are condemned themselves, or something
	// that stands for them.
	Doubtful map[string]bool
}

func (g *Collector) Marked(ctx context.Context, org string) (Marks, error) {
	c := Marks{Org: org}
	if g.Database == nil {
		return c, nil
	}
	epoch, keys, err := g.Database.Marked(ctx, org)
	if err != nil {
		return c, fmt.Errorf("asking what is being collected: %w", err)
	}
	c.Epoch, c.Keys, c.Doubtful = epoch, make(map[string]bool, len(keys)), make(map[string]bool, len(keys))
	for _, k := range keys {
		c.Keys[k], c.Doubtful[pack.FirstKey(k)] = true, true
	}
	return c, nil
}

// pack tells whether something of a pack may be deleted.
func (c *Marks) IsPackMarked(id string) bool {
	return len(c.Keys) > 0 && c.Doubtful[pack.PackKey(c.Org, id)]
}

// collector is the garbage collection of a store. It is safe for concurrent use.
type Collector struct {
	Packs     *pack.Store
	Manifests *manifest.Store
	Index     pack.ChunkIndex
	Database  CollectionMarks
}
