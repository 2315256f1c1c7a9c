package gc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"golang.org/x/sync/errgroup"
)

// ErrMissingSegment means that a segment of a tree is deleted or marked.
var ErrMissingSegment = errors.New("a segment is deleted or marked for deletion")

// Intact returns ErrMissingSegment if a segment of the tree m is deleted or marked.
func (g *Collector) Intact(ctx context.Context, m *manifest.Manifest, c Marks) error {
	group, statCtx := errgroup.WithContext(ctx)
	group.SetLimit(pack.ParallelStats)
	whole := make([]bool, len(m.Root.Packs))
	for i, id := range m.Root.Packs {
		key := pack.Key(m.Org, id)
		if c.Keys[key] {
			continue
		}
		group.Go(func() error {
			_, err := g.Packs.Stat(statCtx, key)
			if whole[i] = err == nil; errors.Is(err, blob.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("checking the packs of a tree: %w", err)
	}
	doubt := NewPlaceChecker(g.Packs, m.Org, c)
	for i, id := range m.Root.Packs {
		if !whole[i] {
			doubt.tables[id] = nil
		}
	}
	return doubt.tree(ctx, m)
}

// PlaceChecker checks whether segments in deleted or marked packs are available,
// because a replacement of the pack holds them.
type PlaceChecker struct {
	packs  *pack.Store
	org    string
	marked Marks

	mu      sync.Mutex                     // guards the fields below
	tables  map[string]*pack.CompactedPack // replacements of deleted or marked packs, by pack; nil if not read
	checked map[string]bool                // packs that were looked up
}

// NewPlaceChecker returns a checker of places in the packs of s.
func NewPlaceChecker(s *pack.Store, org string, c Marks) *PlaceChecker {
	return &PlaceChecker{packs: s, org: org, marked: c, tables: map[string]*pack.CompactedPack{}, checked: map[string]bool{}}
}

// tree returns ErrMissingSegment if a segment of the tree is not available.
func (d *PlaceChecker) tree(ctx context.Context, m *manifest.Manifest) error {
	if len(d.tables) == 0 {
		return nil
	}
	for i := range m.Root.Pages {
		p := &m.Root.Pages[i]
		if err := d.place(ctx, m.Root.Packs[p.Pack], p.Offset); err != nil {
			return err
		}
	}
	for e, err := range m.Entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.Chunks {
			if err := d.place(ctx, e.Chunks[i].Place.Pack, e.Chunks[i].Place.Offset); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *PlaceChecker) place(ctx context.Context, packID string, offset uint32) error {
	t, doubted := d.tables[packID]
	if !doubted {
		return nil
	}
	if t == nil {
		var err error
		if t, err = d.packs.Compacted(ctx, pack.Key(d.org, packID), d.marked.Keys); err != nil {
			return err
		}
		if t == nil {
			return ErrMissingSegment
		}
		d.tables[packID] = t
	}
	if !t.Holds(offset) {
		return ErrMissingSegment
	}
	return nil
}

// Usable reports whether a commit may refer to the chunk at a place. If the pack is
// deleted or marked and no replacement holds the chunk, Usable returns false. Usable
// is safe for concurrent use.
func (d *PlaceChecker) Usable(ctx context.Context, at *format.Place) (bool, error) {
	if len(d.marked.Keys) == 0 {
		return true, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := pack.Key(d.org, at.Pack); d.marked.Doubtful[key] && !d.checked[at.Pack] {
		if err := d.check(ctx, at.Pack, key); err != nil {
			return false, err
		}
	}
	err := d.place(ctx, at.Pack, at.Offset)
	if errors.Is(err, ErrMissingSegment) || pack.IsDamage(err) {
		return false, nil
	}
	return err == nil, err
}

// check adds a pack to d.tables if the pack itself is marked, missing, or damaged.
func (d *PlaceChecker) check(ctx context.Context, packID, key string) error {
	d.checked[packID] = true
	if !d.marked.Keys[key] {
		if _, err := d.packs.Stat(ctx, key); !pack.IsDamage(err) {
			return err
		}
	}
	d.tables[packID] = nil
	return nil
}
