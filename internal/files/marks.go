package files

import (
	"context"
	"fmt"
)

// Garbage tells what a collection is about to delete.
type CollectionMarks interface {
	// Condemned gives the keys of the organisation's objects that the next
	// deletion may take, and the epoch in which that is so. A digest may be
	// named in the organisation's books only while the epoch of its Ref counts.
	Marked(ctx context.Context, org string) (epoch int64, keys []string, err error)
}

// condemned are the objects that may be deleted in an epoch.
type marked struct {
	org   string
	epoch int64
	keys  map[string]bool
	// suspect are the keys of packs that are condemned themselves, or something
	// that stands for them.
	doubtful map[string]bool
}

func (g *collector) marked(ctx context.Context, org string) (marked, error) {
	c := marked{org: org}
	if g.marks == nil {
		return c, nil
	}
	epoch, keys, err := g.marks.Marked(ctx, org)
	if err != nil {
		return c, fmt.Errorf("asking what is being collected: %w", err)
	}
	c.epoch, c.keys, c.doubtful = epoch, make(map[string]bool, len(keys)), make(map[string]bool, len(keys))
	for _, k := range keys {
		c.keys[k], c.doubtful[firstKey(k)] = true, true
	}
	return c, nil
}

// pack tells whether something of a pack may be deleted.
func (c *marked) pack(id string) bool { return len(c.keys) > 0 && c.doubtful[packKey(c.org, id)] }

// collector is the garbage collection of a store. It is safe for concurrent use.
type collector struct {
	packs     *packStore
	manifests *manifestStore
	index     Index
	marks     CollectionMarks
}
