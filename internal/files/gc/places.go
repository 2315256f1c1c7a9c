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

// errLacking says that something of a tree is gone or condemned.
var ErrMissingSegment = errors.New("a segment is gone, or about to be deleted")

// intact gives errLacking where a segment of the tree is gone or condemned.
func (g *Collector) Intact(ctx context.Context, m *manifest.Manifest, c Marks) error {
	group, statCtx := errgroup.WithContext(ctx)
	group.SetLimit(pack.ParallelStats)
	whole := make([]bool, len(m.Root.Packs))
	for i, id := range m.Root.Packs {
		key := pack.PackKey(m.Org, id)
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
		return fmt.Errorf("looking at the packs of a tree: %w", err)
	}
	doubt := NewPlaceChecker(g.Packs, m.Org, c)
	for i, id := range m.Root.Packs {
		if !whole[i] {
			doubt.tables[id] = nil
		}
	}
	return doubt.tree(ctx, m)
}

// places judges places in packs that are gone or condemned: what stands for
// them may hold the segment.
type PlaceChecker struct {
	packs  *pack.Store
	org    string
	marked Marks

	mu     sync.Mutex                     // guards what follows, for hold
	tables map[string]*pack.CompactedPack // of those packs; nil where not read
	looked map[string]bool                // packs
}

func NewPlaceChecker(s *pack.Store, org string, c Marks) *PlaceChecker {
	return &PlaceChecker{packs: s, org: org, marked: c, tables: map[string]*pack.CompactedPack{}, looked: map[string]bool{}}
}

// tree gives errLacking where a place of the tree does not hold.
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
		if t, err = d.packs.Compacted(ctx, pack.PackKey(d.org, packID), d.marked.Keys); err != nil {
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

// hold tells whether a commit may build upon a chunk at a place: unless its
// pack is condemned and nothing stands for it. It is safe for concurrent use.
func (d *PlaceChecker) Usable(ctx context.Context, at *format.Place) (bool, error) {
	if len(d.marked.Keys) == 0 {
		return true, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := pack.PackKey(d.org, at.Pack); d.marked.Doubtful[key] && !d.looked[at.Pack] {
		if err := d.look(ctx, at.Pack, key); err != nil {
			return false, err
		}
	}
	err := d.place(ctx, at.Pack, at.Offset)
	if errors.Is(err, ErrMissingSegment) || pack.IsDamage(err) {
		return false, nil
	}
	return err == nil, err
}

// look notes whether the pack itself is there to stay.
func (d *PlaceChecker) look(ctx context.Context, packID, key string) error {
	d.looked[packID] = true
	if !d.marked.Keys[key] {
		if _, err := d.packs.Stat(ctx, key); !pack.IsDamage(err) {
			return err
		}
	}
	d.tables[packID] = nil
	return nil
}
