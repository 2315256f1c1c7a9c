package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/store"
	"golang.org/x/sync/errgroup"
)

// A collection may run beside commits. What it may delete in its epoch was
// condemned in an earlier one, so a commit that knows the epoch and that list
// builds upon nothing on it; and when the commit ends, the database names the
// tree only if the epoch is still the same. A commit that was overtaken is
// renewed: it is looked at again under the new epoch.

// Epochs tells commits of the collections that they run beside; store.Store
// does.
type Epochs interface {
	// Condemned reads the epoch, then what is condemned.
	Condemned(ctx context.Context, org string) (epoch int64, list []store.Condemned, err error)
}

// ErrOvertaken is what Renew fails with where a part of the tree is deleted, or
// about to be. The tree must be stored again.
var ErrOvertaken = errors.New("content: a collection has overtaken the commit")

// claim is what a commit knows of collections.
type claim struct {
	epoch  int64
	// doomed has the keys that are condemned: true for those that the collection
	// of this epoch may delete, false for those that the next one may.
	doomed map[string]bool
	// suspect holds the keys of packs that are doomed themselves, or something
	// that stands for them.
	suspect map[string]bool
}

func (l *Library) claim(ctx context.Context, org string) (*claim, error) {
	c := &claim{}
	if l.epochs == nil {
		return c, nil
	}
	epoch, list, err := l.epochs.Condemned(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("asking what is condemned: %w", err)
	}
	c.epoch, c.doomed, c.suspect = epoch, map[string]bool{}, map[string]bool{}
	for _, o := range list {
		c.doomed[o.Key] = o.Epoch < epoch
		if first, _, _ := splitGeneration(o.Key); c.doomed[o.Key] {
			c.suspect[first] = true
		}
	}
	return c, nil
}

// Renew looks at a tree that was stored under an earlier epoch, and gives the
// Ref to name it by under the present one. ErrOvertaken says that it must be
// stored again.
func (l *Library) Renew(ctx context.Context, org string, ref Ref) (Ref, error) {
	if err := checkOrg(org); err != nil {
		return Ref{}, err
	}
	c, err := l.claim(ctx, org)
	if err != nil {
		return Ref{}, err
	}
	at, err := l.rootPlace(ctx, org, ref.Digest, c)
	if err == nil && at.sound {
		err = l.retire(ctx, org, c, at.refused)
	}
	if err != nil {
		return Ref{}, err
	}
	if !at.sound {
		return Ref{}, ErrOvertaken
	}
	ref.Epoch = c.epoch
	return ref, nil
}

// rootPlace says where the root of a tree is, or goes. Readers look at the first
// root of a tree where there is one, so those that may not be built upon have to
// go before the tree is named.
type rootPlace struct {
	key     string
	sound   bool     // one is there, and may be built upon
	refused []string // to be deleted
}

func (l *Library) rootPlace(ctx context.Context, org, digest string, c *claim) (at rootPlace, err error) {
	first := manifestKey(org, digest)
	all, err := l.rootGenerations(ctx, first)
	if err != nil {
		return at, err
	}
	next := 0
	for _, g := range all {
		next = max(next, g.n+1)
		if !at.sound && !c.doomed[g.key] {
			at.sound, err = l.soundRoot(ctx, org, digest, g.key, c)
			if err != nil {
				return at, err
			}
			if at.sound {
				at.key = g.key
				continue
			}
		}
		at.refused = append(at.refused, g.key)
	}
	if !at.sound {
		for c.doomed[generationKey(first, next)] {
			next++
		}
		at.key = generationKey(first, next)
	}
	return at, nil
}

// rootGenerations lists the roots of a tree that exist, the newest first.
func (l *Library) rootGenerations(ctx context.Context, first string) ([]generation, error) {
	all, err := laterGenerations(ctx, l.packs.Store, first)
	if err != nil {
		return nil, err
	}
	there, err := l.exists(ctx, first)
	if there {
		all = append(all, generation{0, first})
	}
	return all, err
}

func (l *Library) soundRoot(ctx context.Context, org, digest, key string, c *claim) (bool, error) {
	m := &manifest{lib: l, org: org, digest: digest}
	err := m.openAt(ctx, key)
	if err == nil {
		err = m.intact(ctx, c)
	}
	if isDamage(err) || errors.Is(err, errLacking) {
		return false, nil
	}
	return err == nil, err
}

// retire deletes roots that may not be built upon. A claim that is not of the
// present epoch is no reason to: the tree cannot be named under it, and Renew
// judges again.
func (l *Library) retire(ctx context.Context, org string, c *claim, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if now, err := l.claim(ctx, org); err != nil || now.epoch != c.epoch {
		return err
	}
	for _, k := range keys {
		if err := l.blobs.Delete(ctx, k); err != nil {
			return fmt.Errorf("deleting the former root of a tree: %w", err)
		}
	}
	return nil
}

// errLacking says that something of a tree is gone or doomed.
var errLacking = errors.New("a segment is gone, or about to be deleted")

const parallelStats = 8

// intact gives errLacking where a segment of the tree is gone or doomed.
func (m *manifest) intact(ctx context.Context, c *claim) error {
	g, statCtx := errgroup.WithContext(ctx)
	g.SetLimit(parallelStats)
	whole := make([]bool, len(m.root.packs))
	for i, id := range m.root.packs {
		key := packKey(m.org, id)
		if c.doomed[key] {
			continue
		}
		g.Go(func() error {
			_, err := m.lib.packs.Store.Stat(statCtx, key)
			if whole[i] = err == nil; errors.Is(err, blob.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("looking at the packs of a tree: %w", err)
	}
	doubt := newDoubtful(m.lib, m.org, c)
	for i, id := range m.root.packs {
		if !whole[i] {
			doubt.tables[id] = nil
		}
	}
	return doubt.tree(ctx, m)
}

// doubtful looks at places in packs that are gone or doomed: what stands for
// them may hold the segment.
type doubtful struct {
	lib    *Library
	org    string
	claim  *claim
	tables map[string]*extents // of those packs; nil where not read
	looked map[string]bool     // packs
}

func newDoubtful(l *Library, org string, c *claim) *doubtful {
	return &doubtful{lib: l, org: org, claim: c, tables: map[string]*extents{}, looked: map[string]bool{}}
}

// tree gives errLacking where a place of the tree does not hold.
func (d *doubtful) tree(ctx context.Context, m *manifest) error {
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

func (d *doubtful) place(ctx context.Context, pack string, offset uint32) error {
	t, doubted := d.tables[pack]
	if !doubted {
		return nil
	}
	if t == nil {
		var err error
		if t, err = d.lib.packs.table(ctx, packKey(d.org, pack), d.claim.doomed); err != nil {
			return err
		}
		if t == nil {
			return errLacking
		}
		d.tables[pack] = t
	}
	if !t.holds(offset) {
		return errLacking
	}
	return nil
}

// holds tells whether a commit may build upon a chunk of its parent: unless its
// pack is doomed and nothing stands for it.
func (d *doubtful) holds(ctx context.Context, at *place) (bool, error) {
	if key := packKey(d.org, at.pack); d.claim.suspect[key] && !d.looked[at.pack] {
		if err := d.look(ctx, at.pack, key); err != nil {
			return false, err
		}
	}
	err := d.place(ctx, at.pack, at.offset)
	if errors.Is(err, errLacking) || errors.Is(err, errDamaged) {
		return false, nil
	}
	return err == nil, err
}

// look notes whether the pack itself is there to stay.
func (d *doubtful) look(ctx context.Context, pack, key string) error {
	d.looked[pack] = true
	if !d.claim.doomed[key] {
		_, err := d.lib.packs.Store.Stat(ctx, key)
		if !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	d.tables[pack] = nil
	return nil
}
