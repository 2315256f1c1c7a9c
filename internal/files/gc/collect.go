package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/store"
)

// Roots is the part of the database that a collection uses. store.Store implements
// it; store.Collections documents the methods.
type Roots interface {
	BeginCollection(ctx context.Context, org string) (epoch int64, err error)
	LiveDigests(ctx context.Context, org string) iter.Seq2[string, error]
	MarkedObjects(ctx context.Context, org string) (epoch int64, list []store.MarkedObject, err error)
	MarkObjects(ctx context.Context, org string, epoch int64, keys []string, at stint.Time) error
	UnmarkObjects(ctx context.Context, org string, keys []string) error
}

// Options adjusts Collect.
type Options struct {
	// Grace is the minimum age at which a pack is marked. It is also the minimum
	// time between marking and deletion for roots, derived objects, and packs that
	// were replaced by compaction. It should exceed the duration of any commit.
	Grace time.Duration
	// Now is the clock; nil is time.Now. It must not be behind the clock that names
	// packs.
	Now func() time.Time
	// DryRun counts the objects that would be marked, unmarked, and deleted, without
	// changing anything. It does not consider compaction.
	DryRun bool
	// Compact is the percentage of referenced bytes below which a pack is
	// compacted. 0 is 60; negative means never.
	Compact int
	// Progress is called repeatedly with the current result. It may be nil.
	Progress func(Result)
}

// ErrCollecting is returned by Collect if another collection of the organisation
// began meanwhile. The other collection then does the work.
var ErrCollecting = errors.New("files: another collection began meanwhile")

// Result is the result of a collection.
type Result struct {
	Epoch     int64 `json:"epoch"`
	Trees     int64 `json:"trees"`     // referenced trees
	Pages     int64 `json:"pages"`     // distinct pages of these trees
	Packs     int64 `json:"packs"`     // referenced packs
	Marked    int64 `json:"condemned"` // objects marked for a later collection to delete
	Unmarked  int64 `json:"pardoned"`  // objects that are referenced again
	Deleted   int64 `json:"deleted"`   // deleted objects
	Compacted int64 `json:"compacted"` // compacted packs
	Damaged   int64 `json:"damaged"`   // packs that are damaged and could not be compacted
	// Freed is the size of deleted objects in bytes, minus the size of compacted
	// packs that were written.
	Freed int64 `json:"freedBytes"`
}

const (
	defaultCompact = 60
	// keysAtOnce is the maximum number of objects that are deleted between two
	// requests to the database.
	keysAtOnce = 256
)

// Collect deletes objects that no tree of r refers to, in two steps: it marks
// unreferenced objects, and deletes objects that an earlier collection marked and
// that are still unreferenced. It may run concurrently with readers, and with
// commits of libraries with files.Options.Marks. An interrupted collection can be
// repeated. If a second collection of the organisation begins, the first one returns
// ErrCollecting. If a tree is unreadable, Collect returns an error and deletes
// nothing.
func (g *Collector) Collect(ctx context.Context, org string, r Roots, o Options) (Result, error) {
	c := &collection{gc: g, org: org, roots: r, o: o}
	if err := pack.CheckOrg(org); err != nil {
		return c.done, err
	}
	if c.o.Compact == 0 {
		c.o.Compact = defaultCompact
	}
	if c.o.Now == nil {
		c.o.Now = time.Now
	}
	err := c.run(ctx)
	return c.done, err
}

// collection is a running Collect.
type collection struct {
	gc    *Collector
	org   string
	roots Roots
	o     Options
	now   time.Time
	done  Result
	marks *Marking

	marked map[string]store.MarkedObject // by key: objects that were marked before the epoch began
	seen   map[string]bool               // keys of marked objects that exist
	mark   []string                      // keys of objects to be marked
	unmark []string                      // keys of objects to be unmarked
	delete []object                      // objects to be deleted
}

// object is an object in the store.
type object struct {
	key  string
	size int64
}

func (c *collection) run(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	var err error
	c.marks, err = c.gc.mark(ctx, c.org, c.roots.LiveDigests(ctx, c.org), func() { c.done.Pages++; c.progress() })
	if err := c.checkEpoch(ctx); err != nil {
		return err // an unreadable tree may have been deleted by another collection
	}
	if err != nil {
		return err
	}
	c.done.Trees, c.done.Packs = int64(len(c.marks.Trees)), int64(len(c.marks.Packs))
	// Roots first: no root may exist without its packs.
	for _, step := range []func(context.Context) error{c.sweepRoots, c.sweepDerived, c.apply, c.sweepPacks, c.apply, c.forget} {
		if err := step(ctx); err != nil {
			return err
		}
		c.progress()
	}
	return nil
}

func (c *collection) progress() {
	if c.o.Progress != nil {
		c.o.Progress(c.done)
	}
}

// begin reads the marked objects, then begins a new epoch. Commits of the new epoch
// read the marked objects later, so they know every object that this collection may
// delete.
func (c *collection) begin(ctx context.Context) error {
	c.now = c.o.Now()
	epoch, list, err := c.roots.MarkedObjects(ctx, c.org)
	if err == nil && !c.o.DryRun {
		epoch, err = c.roots.BeginCollection(ctx, c.org)
	}
	if err != nil {
		return fmt.Errorf("beginning a collection: %w", err)
	}
	c.done.Epoch = epoch
	c.marked, c.seen = map[string]store.MarkedObject{}, map[string]bool{}
	for _, o := range list {
		c.marked[o.Key] = o
	}
	return nil
}

// checkEpoch returns ErrCollecting if another collection has begun.
func (c *collection) checkEpoch(ctx context.Context) error {
	if c.o.DryRun {
		return nil
	}
	epoch, _, err := c.roots.MarkedObjects(ctx, c.org)
	if err != nil {
		return fmt.Errorf("reading the epoch of collection: %w", err)
	}
	if epoch != c.done.Epoch {
		return ErrCollecting
	}
	return nil
}

// sweepRoots classifies roots. If a tree has several roots, only the one that readers
// use is referenced: the original if it exists, otherwise the newest.
func (c *collection) sweepRoots(ctx context.Context) error {
	prefix := c.org + "/manifests/"
	return c.groups(ctx, prefix, func(group []object) error {
		digest, ok := pack.ParseDigest(strings.TrimPrefix(pack.FirstKey(group[0].key), prefix))
		read := group[0]
		if _, n, _ := pack.SplitGeneration(read.key); n > 0 {
			read = slices.MaxFunc(group, byGeneration)
		}
		for _, o := range group {
			c.classify(o, ok && c.marks.Trees[digest] && o == read, true, true)
		}
		return nil
	})
}

// sweepDerived classifies objects that are derived from trees.
func (c *collection) sweepDerived(ctx context.Context) error {
	for _, prefix := range pack.DerivedPrefixes(c.org) {
		for info, err := range c.gc.Packs.List(ctx, prefix) {
			if err != nil {
				return fmt.Errorf("listing %s: %w", prefix, err)
			}
			digest, ok := pack.ParseDigest(strings.TrimPrefix(pack.FirstKey(info.Key), prefix))
			c.classify(object{info.Key, info.Size}, ok && c.marks.Trees[digest], true, true)
		}
	}
	return nil
}

// groups calls judge for each group of an object and its replacements.
func (c *collection) groups(ctx context.Context, prefix string, judge func([]object) error) error {
	var group []object
	for info, err := range c.gc.Packs.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("listing %s: %w", prefix, err)
		}
		if len(group) > 0 && pack.FirstKey(group[0].key) != pack.FirstKey(info.Key) {
			if err := judge(group); err != nil {
				return err
			}
			group = nil
		}
		group = append(group, object{info.Key, info.Size})
	}
	if len(group) == 0 {
		return nil
	}
	return judge(group)
}

func byGeneration(a, b object) int {
	_, n, _ := pack.SplitGeneration(a.key)
	_, m, _ := pack.SplitGeneration(b.key)
	return cmp.Compare(n, m)
}

// classify decides whether an object is unmarked, marked, deleted, or left as it is.
// referenced means that a tree refers to the object, oldEnough that it may be marked,
// and graceFromMark that it must have been marked for the grace period before it is
// deleted.
func (c *collection) classify(o object, referenced, oldEnough, graceFromMark bool) {
	row, isMarked := c.marked[o.key]
	c.seen[o.key] = c.seen[o.key] || isMarked
	switch {
	case referenced && isMarked:
		c.unmark = append(c.unmark, o.key)
	case referenced:
	case !isMarked && oldEnough:
		c.mark = append(c.mark, o.key)
	case isMarked && (!graceFromMark || !c.now.Before(row.Since.Add(c.o.Grace))):
		c.delete = append(c.delete, o)
	}
}

// sweepPacks classifies packs together with their replacements.
func (c *collection) sweepPacks(ctx context.Context) error {
	return c.groups(ctx, c.org+"/packs/", func(group []object) error { return c.sweepPack(ctx, group) })
}

func (c *collection) sweepPack(ctx context.Context, group []object) error {
	id := pack.FirstKey(group[0].key)[len(c.org+"/packs/"):]
	p := c.marks.Packs[id]
	// The name of a pack contains the time at which its commit began to fill it.
	oldEnough := pack.TimePart(id) < stint.ULIDAt(c.now.Add(-c.o.Grace).Add(time.Millisecond))
	if p == nil {
		for _, o := range group {
			c.classify(o, false, oldEnough, false)
		}
		return nil
	}
	keep, err := c.keeper(ctx, group, p)
	if err != nil {
		return err
	}
	compacted := false
	if oldEnough && !p.Whole && (keep == nil || !p.allReferenced()) {
		if compacted, err = c.compact(ctx, id, group, keep, p); err != nil {
			return err
		}
	}
	for _, o := range group {
		// If keep is nil, the referenced segments are spread over all objects of
		// the group.
		c.classify(o, !compacted && (keep == nil || o == *keep), true, true)
	}
	return nil
}

// keeper returns the newest object of a group that holds all referenced segments
// of a pack, or nil. If the group has a single object, keeper returns it unchecked.
func (c *collection) keeper(ctx context.Context, group []object, p *MarkedPack) (*object, error) {
	if len(group) == 1 {
		return &group[0], nil
	}
	for _, o := range slices.Backward(slices.SortedFunc(slices.Values(group), byGeneration)) {
		segments, err := pack.ReadSegments(ctx, c.gc.Packs.Store, o.key)
		if pack.IsDamage(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading the footer of %s: %w", o.key, err)
		}
		has := map[uint32]bool{}
		for _, s := range segments {
			has[s.Offset] = true
		}
		if p.isWithin(has) {
			return &o, nil
		}
	}
	return nil, nil
}

// isWithin reports whether has contains the offsets of all referenced segments. If
// the whole pack must be kept, isWithin returns false.
func (p *MarkedPack) isWithin(has map[uint32]bool) bool {
	for _, o := range p.offsets {
		if p.isReferenced(o) && !has[o] {
			return false
		}
	}
	return !p.Whole
}

// compact writes a compacted pack if the referenced part of keep is small, or if keep
// is nil. It reports whether it wrote the pack.
func (c *collection) compact(ctx context.Context, id string, group []object, keep *object, p *MarkedPack) (bool, error) {
	referenced, small, err := c.share(ctx, id, keep, p)
	if pack.IsDamage(err) {
		c.done.Damaged++
		return false, nil
	}
	if err != nil || !small || c.o.DryRun {
		return false, err
	}
	f := &pack.Reader{Store: c.gc.Packs, Org: c.org}
	w := &pack.Compactor{Packs: c.gc.Packs, Org: c.org}
	key, size, err := w.Write(ctx, id, referenced, w.From(ctx, f, id))
	var refused *stint.Error
	switch err := errors.Join(err, f.Close()); {
	case errors.As(err, &refused):
		return false, nil // the quota is used up; deletions free space
	case errors.Is(err, blob.ErrExists):
		return false, ErrCollecting
	case pack.IsDamage(err):
		c.done.Damaged++
		return false, nil
	case err != nil:
		return false, err
	}
	c.done.Compacted++
	c.done.Freed -= size
	return true, pack.Reindex(c.gc.Index, c.org, keysOf(group), key, referenced)
}

// share returns the referenced segments of a pack. small reports whether the pack is
// to be compacted.
func (c *collection) share(ctx context.Context, id string, keep *object, p *MarkedPack) (referenced []format.Segment, small bool, err error) {
	var segments []format.Segment
	if keep != nil {
		segments, err = pack.ReadSegments(ctx, c.gc.Packs.Store, keep.key)
	} else {
		segments, err = c.gc.Packs.Footer(ctx, c.org, id)
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the footer of pack %s: %w", id, err)
	}
	total, kept := int64(0), int64(0)
	for _, s := range segments {
		total += int64(s.Length)
		if p.isReferenced(s.Offset) {
			kept += int64(s.Length)
			referenced = append(referenced, s)
		}
	}
	return referenced, keep == nil || kept*100 < total*int64(c.o.Compact), nil
}

// apply carries out the decisions of classify. It removes packs from the index before
// it deletes them.
func (c *collection) apply(ctx context.Context) error {
	defer func() { c.mark, c.delete, c.unmark = nil, nil, nil }()
	if err := c.checkEpoch(ctx); err != nil {
		return err
	}
	if c.o.DryRun {
		c.count(c.delete)
		c.done.Marked += int64(len(c.mark))
		c.done.Unmarked += int64(len(c.unmark))
		return nil
	}
	for some := range slices.Chunk(c.delete, keysAtOnce) {
		if err := c.checkEpoch(ctx); err != nil {
			return err
		}
		if err := c.remove(ctx, some); err != nil {
			return err
		}
		c.progress()
	}
	if len(c.unmark) > 0 {
		if err := c.roots.UnmarkObjects(ctx, c.org, c.unmark); err != nil {
			return fmt.Errorf("unmarking objects: %w", err)
		}
		c.done.Unmarked += int64(len(c.unmark))
	}
	if len(c.mark) > 0 {
		if err := c.roots.MarkObjects(ctx, c.org, c.done.Epoch, c.mark, stint.TimeOf(c.now)); err != nil {
			return fmt.Errorf("marking objects: %w", err)
		}
		c.done.Marked += int64(len(c.mark))
	}
	return nil
}

func (c *collection) remove(ctx context.Context, objects []object) error {
	var packs, keys []string
	for _, o := range objects {
		if name, ok := strings.CutPrefix(o.key, c.org+"/packs/"); ok {
			packs, keys = append(packs, name), append(keys, o.key)
		}
	}
	if c.gc.Index != nil && len(packs) > 0 {
		if err := c.gc.Index.Drop(c.org, packs); err != nil {
			return fmt.Errorf("dropping packs from the index: %w", err)
		}
	}
	for _, o := range objects {
		if err := c.gc.Packs.Delete(ctx, o.key); err != nil {
			return fmt.Errorf("deleting unreferenced objects: %w", err)
		}
	}
	c.count(objects)
	// Marks of roots and derived objects stay until the next collection. Their keys
	// may be used again, which must not happen while a slower collection may still
	// delete it.
	if err := c.roots.UnmarkObjects(ctx, c.org, keys); err != nil {
		return fmt.Errorf("unmarking deleted objects: %w", err)
	}
	return nil
}

func (c *collection) count(deleted []object) {
	c.done.Deleted += int64(len(deleted))
	for _, o := range deleted {
		c.done.Freed += o.size
	}
}

// forget removes the marks of objects that an earlier collection deleted.
func (c *collection) forget(ctx context.Context) error {
	for key := range c.marked {
		if !c.seen[key] {
			c.unmark = append(c.unmark, key)
		}
	}
	slices.Sort(c.unmark)
	if len(c.unmark) == 0 || c.o.DryRun {
		return nil
	}
	if err := c.roots.UnmarkObjects(ctx, c.org, c.unmark); err != nil {
		return fmt.Errorf("unmarking deleted objects: %w", err)
	}
	return nil
}

func keysOf(objects []object) []string {
	keys := make([]string, len(objects))
	for i := range objects {
		keys[i] = objects[i].key
	}
	return keys
}
