package files

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stint-dev/stint/internal/blob"
	"golang.org/x/sync/errgroup"
)

// errLacking says that something of a tree is gone or condemned.
var errMissingSegment = errors.New("a segment is gone, or about to be deleted")

// intact gives errLacking where a segment of the tree is gone or condemned.
func (g *collector) intact(ctx context.Context, m *manifest, c marked) error {
	group, statCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelStats)
	whole := make([]bool, len(m.root.packs))
	for i, id := range m.root.packs {
		key := packKey(m.org, id)
		if c.keys[key] {
			continue
		}
		group.Go(func() error {
			_, err := g.packs.Stat(statCtx, key)
			if whole[i] = err == nil; errors.Is(err, blob.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("looking at the packs of a tree: %w", err)
	}
	doubt := newRelocation(g.packs, m.org, c)
	for i, id := range m.root.packs {
		if !whole[i] {
			doubt.tables[id] = nil
		}
	}
	return doubt.tree(ctx, m)
}

// places judges places in packs that are gone or condemned: what stands for
// them may hold the segment.
type relocation struct {
	packs  *packStore
	org    string
	marked marked

	mu     sync.Mutex          // guards what follows, for hold
	tables map[string]*extents // of those packs; nil where not read
	looked map[string]bool     // packs
}

func newRelocation(s *packStore, org string, c marked) *relocation {
	return &relocation{packs: s, org: org, marked: c, tables: map[string]*extents{}, looked: map[string]bool{}}
}

// tree gives errLacking where a place of the tree does not hold.
func (d *relocation) tree(ctx context.Context, m *manifest) error {
	if len(d.tables) == 0 {
		return nil
	}
	for i := range m.root.pages {
		p := &m.root.pages[i]
		if err := d.place(ctx, m.root.packs[p.pack], p.offset); err != nil {
			return err
		}
	}
	for e, err := range m.entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.chunks {
			if err := d.place(ctx, e.chunks[i].at.pack, e.chunks[i].at.offset); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *relocation) place(ctx context.Context, pack string, offset uint32) error {
	t, doubted := d.tables[pack]
	if !doubted {
		return nil
	}
	if t == nil {
		var err error
		if t, err = d.packs.table(ctx, packKey(d.org, pack), d.marked.keys); err != nil {
			return err
		}
		if t == nil {
			return errMissingSegment
		}
		d.tables[pack] = t
	}
	if !t.holds(offset) {
		return errMissingSegment
	}
	return nil
}

// hold tells whether a commit may build upon a chunk at a place: unless its
// pack is condemned and nothing stands for it. It is safe for concurrent use.
func (d *relocation) hold(ctx context.Context, at *place) (bool, error) {
	if len(d.marked.keys) == 0 {
		return true, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := packKey(d.org, at.pack); d.marked.doubtful[key] && !d.looked[at.pack] {
		if err := d.look(ctx, at.pack, key); err != nil {
			return false, err
		}
	}
	err := d.place(ctx, at.pack, at.offset)
	if errors.Is(err, errMissingSegment) || isDamage(err) {
		return false, nil
	}
	return err == nil, err
}

// look notes whether the pack itself is there to stay.
func (d *relocation) look(ctx context.Context, pack, key string) error {
	d.looked[pack] = true
	if !d.marked.keys[key] {
		if _, err := d.packs.Stat(ctx, key); !isDamage(err) {
			return err
		}
	}
	d.tables[pack] = nil
	return nil
}
