package check

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// NamedTree is a tree and the name that users know it by.
type NamedTree struct {
	Digest string
	Name   string
}

// Options adjusts Check. The zero value checks roots, pages, and footers.
type Options struct {
	Read   bool // read every byte and verify its hash
	Repair bool // restore what can be restored
	// Limit is the maximum number of damaged objects in the result, and of uses per
	// object. 0 means 100.
	Limit int
	// Progress is called after each page and each pack with the current result. It
	// may be nil.
	Progress func(Result)
}

// Result is the result of a check.
type Result struct {
	Trees    int64    `json:"trees"` // distinct named trees
	Pages    int64    `json:"pages"`
	Packs    int64    `json:"packs"`
	Segments int64    `json:"segments"`          // segments that were read
	Bytes    int64    `json:"bytes"`             // bytes that were read
	Orphans  int64    `json:"orphans"`           // unreferenced roots and packs, which the next collections delete
	Damaged  int64    `json:"damaged"`           // damaged or missing objects
	Repaired int64    `json:"repaired"`          // repaired objects
	Damages  []Damage `json:"damages,omitempty"` // the first damaged or missing objects
}

// Damage is a damaged or missing object.
type Damage struct {
	Key      string `json:"key"`            // of the object
	Problem  string `json:"what"`           // "missing" or "damaged"
	Segments int64  `json:"-"`              // referenced segments of a pack that are lost; after a repair, those still lost
	Repaired bool   `json:"repaired"`       // after the repair no referenced segment is lost, or a valid root exists
	Uses     int64  `json:"uses"`           // places in named trees that the damage affects
	Used     []Use  `json:"used,omitempty"` // the first of these places
}

// Use is a place in a named tree that a damage affects.
type Use struct {
	Name string `json:"name"`           // of the tree
	Path string `json:"path,omitempty"` // "" for the whole tree
	// Following means that the entries after Path are incomplete, too, because the
	// page that lists them is lost.
	Following bool `json:"andOn,omitempty"`
}

const checkLimit = 100

// Check verifies all objects that the trees in live refer to. It iterates over live
// several times. Damage is part of the result, not an error.
//
// With Repair, a lost segment is restored if another pack has a copy of it. The
// damaged pack is stored again without the segments that remain lost, so that no
// commit refers to them. If files remain lost, store these files again in any tree,
// then repair once more: this restores them in the old versions, too. No garbage
// collection should run during a repair.
func (k *Checker) Check(ctx context.Context, org string, live iter.Seq2[NamedTree, error], o Options) (Result, error) {
	if err := pack.CheckOrg(org); err != nil {
		return Result{}, err
	}
	if o.Limit == 0 {
		o.Limit = checkLimit
	}
	c := newCheck(k, org, live, o)
	err := c.run(ctx)
	if err != nil || !c.again {
		return c.done, err
	}
	// A restored page may refer to further damaged objects. The second check finds
	// them.
	before := c.done
	c = newCheck(k, org, live, o)
	err = c.run(ctx)
	c.done.Damaged += before.Repaired
	c.done.Repaired += before.Repaired
	for _, d := range slices.Backward(before.Damages) {
		if d.Repaired {
			c.done.Damages = append([]Damage{d}, c.done.Damages...)
		}
	}
	c.done.Damages = c.done.Damages[:min(len(c.done.Damages), o.Limit)]
	return c.done, err
}

// check is a running Check.
type check struct {
	packs     *pack.Store
	manifests *manifest.Store
	index     pack.ChunkIndex
	gc        *gc.Collector
	org       string
	live      iter.Seq2[NamedTree, error]
	o         Options
	done      Result
	marking   *gc.Marking
	badRoots  map[string]string   // damaged or missing roots: the problem by digest
	badPacks  map[string]*badPack // packs that are damaged or missing
	again     bool                // a page or a root was restored
}

func newCheck(k *Checker, org string, live iter.Seq2[NamedTree, error], o Options) *check {
	c := &check{packs: k.Packs, manifests: k.Manifests, index: k.Index, gc: k.GC, org: org, live: live, o: o, badRoots: map[string]string{}, badPacks: map[string]*badPack{}}
	c.marking = gc.NewMarking(k.Manifests, org, func() { c.done.Pages++; c.progress() })
	return c
}

func (c *check) progress() {
	if c.o.Progress != nil {
		c.o.Progress(c.done)
	}
}

func (c *check) run(ctx context.Context) error {
	if err := c.trees(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.marking.Packs)) {
		if err := c.pack(ctx, id, c.marking.Packs[id]); err != nil {
			return err
		}
		c.done.Packs++
		c.progress()
	}
	if err := c.orphans(ctx); err != nil {
		return err
	}
	if len(c.badRoots)+len(c.badPacks) == 0 {
		return nil
	}
	if err := c.locate(ctx); err != nil {
		return err
	}
	return c.finish(ctx)
}

// trees marks the objects that the named trees refer to, as far as the trees are
// readable.
func (c *check) trees(ctx context.Context) error {
	for n, err := range c.live {
		if err != nil {
			return fmt.Errorf("listing referenced trees: %w", err)
		}
		d, ok := pack.ParseDigest(n.Digest)
		if !ok || c.marking.Trees[d] {
			continue
		}
		c.marking.Trees[d] = true
		c.done.Trees++
		m := &manifest.Manifest{Store: c.manifests, Org: c.org, Digest: n.Digest}
		if err := m.ReadRoot(ctx); pack.IsDamage(err) {
			c.badRoots[n.Digest] = problemOf(err)
		} else if err != nil {
			return err
		} else if err := c.tree(ctx, m); err != nil {
			return fmt.Errorf("reading the tree %s: %w", n.Digest, err)
		}
	}
	return nil
}

func problemOf(err error) string {
	if errors.Is(err, blob.ErrNotFound) {
		return "missing"
	}
	return "damaged"
}

// tree marks the objects of a tree page by page. It records unreadable pages as
// damage and skips them.
func (c *check) tree(ctx context.Context, m *manifest.Manifest) error {
	for i := range m.Root.Pages {
		one := &manifest.Manifest{Store: m.Store, Org: m.Org, Digest: m.Digest, Root: &format.Root{Packs: m.Root.Packs, Pages: m.Root.Pages[i : i+1]}}
		err := c.marking.Root(ctx, one)
		if pack.IsDamage(err) {
			c.addDamaged(m.Root.Packs[m.Root.Pages[i].Pack], problemOf(err))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// addDamaged records a damaged or missing pack.
func (c *check) addDamaged(id, what string) {
	if c.badPacks[id] == nil {
		c.badPacks[id] = &badPack{id: id, what: what, segments: map[uint32]*badSegment{}}
	}
}

// pack checks a referenced pack.
func (c *check) pack(ctx context.Context, id string, p *gc.MarkedPack) error {
	switch {
	case p.Missing:
		c.addDamaged(id, "missing")
		return nil
	case p.Whole:
		c.addDamaged(id, "damaged") // its footer is damaged or lacks a segment
		return nil
	case !c.o.Read:
		return nil
	}
	segments, err := c.packs.Footer(ctx, c.org, id)
	if pack.IsDamage(err) {
		c.addDamaged(id, problemOf(err))
		return nil
	} else if err != nil {
		return err
	}
	f := &pack.Reader{Store: c.packs, Org: c.org}
	w := &pack.Compactor{Packs: c.packs, Org: c.org}
	read := w.From(ctx, f, id)
	for _, s := range segments {
		b, err := read(s)
		if err == nil {
			err = w.Verify(s, b)
		}
		c.done.Segments++
		c.done.Bytes += int64(s.Length)
		if pack.IsDamage(err) {
			c.addDamaged(id, "damaged")
		} else if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// orphans counts unreferenced objects.
func (c *check) orphans(ctx context.Context) error {
	for _, kind := range []string{"/manifests/", "/packs/"} {
		for info, err := range c.packs.List(ctx, c.org+kind) {
			if err != nil {
				return fmt.Errorf("listing %s: %w", kind, err)
			}
			name := strings.TrimPrefix(pack.FirstKey(info.Key), c.org+kind)
			d, isTree := pack.ParseDigest(name)
			if c.marking.Packs[name] == nil && (!isTree || !c.marking.Trees[d]) {
				c.done.Orphans++
			}
		}
	}
	return nil
}

// note adds a damage to the result.
func (c *check) note(d Damage) {
	c.done.Damaged++
	if d.Repaired {
		c.done.Repaired++
	}
	if len(c.done.Damages) < c.o.Limit {
		c.done.Damages = append(c.done.Damages, d)
	}
}

// Checker verifies and repairs the stored snapshots of organisations.
type Checker struct {
	Packs     *pack.Store
	Manifests *manifest.Store
	Index     pack.ChunkIndex
	GC        *gc.Collector
}
