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

// Roots is the database's part in a collection; store.Store has it. See
// store.Collections for what it promises.
type Roots interface {
	BeginCollection(ctx context.Context, org string) (epoch int64, err error)
	LiveDigests(ctx context.Context, org string) iter.Seq2[string, error]
	MarkedObjects(ctx context.Context, org string) (epoch int64, list []store.MarkedObject, err error)
	MarkObjects(ctx context.Context, org string, epoch int64, keys []string, at stint.Time) error
	UnmarkObjects(ctx context.Context, org string, keys []string) error
}

// Options adjusts Collect.
type Options struct {
	// Grace is how old a pack must be to be condemned, and how long a root, or a
	// pack that a compacted one replaced, stays condemned before it is deleted.
	// It should be longer than any commit takes.
	Grace time.Duration
	// Now is the clock; nil is time.Now. It must not lag behind the one that
	// the names of packs were minted with.
	Now func() time.Time
	// DryRun tells what would be done, and does nothing.
	DryRun bool
	// Compact is the share in percent below which what is named of a pack is
	// stored anew, without the rest. 0 is 60; negative means never.
	Compact int
	// Progress is told now and then what is done. It may be nil.
	Progress func(Result)
}

// ErrCollecting is what Collect ends with where another collection of the
// organisation began: that one does its work.
var ErrCollecting = errors.New("files: another collection began meanwhile")

// Collected says what a collection did.
type Result struct {
	Epoch     int64
	Trees     int64 // that something names
	Pages     int64 // of them, each counted once
	Packs     int64 // that hold something of them
	Marked    int64 // objects, for the next collection to delete
	Unmarked  int64 // that came to be named again
	Deleted   int64 // objects
	Compacted int64 // packs that were stored anew
	Damaged   int64 // packs that should have been, but are damaged
	// Freed are the bytes of deleted objects, less those of packs stored anew.
	Freed int64
}

const (
	defaultCompact = 60
	// keysAtOnce bounds what is deleted between two words with the database.
	keysAtOnce = 256
)

// Collect deletes what no tree names that r does, in two steps: it condemns, and
// deletes what an earlier collection condemned and nothing names still. It may
// run beside commits of libraries that know the epochs (Options.Marks), and
// beside readers; an interrupted one can be run again. Of two at a time of an
// organisation the first ends with ErrCollecting; it is the caller's to see that
// there are no more. A tree that cannot be read ends it before anything is
// deleted.
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

// collection is a Collect under way.
type collection struct {
	gc    *Collector
	org   string
	roots Roots
	o     Options
	now   time.Time
	done  Result
	marks *Marking

	marked map[string]store.MarkedObject // as it was before the epoch began
	seen   map[string]bool               // of those, the keys that exist
	mark   []string
	unmark []string
	delete []object
}

// object is one of the store.
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
		return err // a tree that could not be read may have been deleted
	}
	if err != nil {
		return err
	}
	c.done.Trees, c.done.Packs = int64(len(c.marks.Trees)), int64(len(c.marks.Packs))
	// Roots first: a root never lacks a pack while it is there.
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

// begin begins the epoch. What may be deleted in it is read before: who commits
// under it reads the list later, so that it has all of that.
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

// alone gives ErrCollecting where another collection began since.
func (c *collection) checkEpoch(ctx context.Context) error {
	if c.o.DryRun {
		return nil
	}
	epoch, _, err := c.roots.MarkedObjects(ctx, c.org)
	if err != nil {
		return fmt.Errorf("asking for the epoch of collection: %w", err)
	}
	if epoch != c.done.Epoch {
		return ErrCollecting
	}
	return nil
}

// sweepRoots judges roots. Of several of a tree readers find the first, or where
// that is gone the newest.
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

// sweepDerived judges what is made from trees and can be made again.
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

// groups walks objects, those together that stand for one.
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

// judge decides over an object: named is whether something names it, ripe
// whether it may be condemned, patient whether grace counts from then.
func (c *collection) classify(o object, named, ripe, patient bool) {
	row, condemned := c.marked[o.key]
	c.seen[o.key] = c.seen[o.key] || condemned
	switch {
	case named && condemned:
		c.unmark = append(c.unmark, o.key)
	case named:
	case !condemned && ripe:
		c.mark = append(c.mark, o.key)
	case condemned && (!patient || !c.now.Before(row.Since.Add(c.o.Grace))):
		c.delete = append(c.delete, o)
	}
}

// sweepPacks judges packs, each with all that stands for it.
func (c *collection) sweepPacks(ctx context.Context) error {
	return c.groups(ctx, c.org+"/packs/", func(group []object) error { return c.sweepPack(ctx, group) })
}

func (c *collection) sweepPack(ctx context.Context, group []object) error {
	id := pack.FirstKey(group[0].key)[len(c.org+"/packs/"):]
	p := c.marks.Packs[id]
	// A pack that is being filled was minted when its commit was under way.
	ripe := pack.Minted(id) < stint.ULIDAt(c.now.Add(-c.o.Grace).Add(time.Millisecond))
	if p == nil {
		for _, o := range group {
			c.classify(o, false, ripe, false)
		}
		return nil
	}
	keep, err := c.keeper(ctx, group, p)
	if err != nil {
		return err
	}
	anew := false
	if ripe && !p.Whole && (keep == nil || !p.all()) {
		if anew, err = c.compact(ctx, id, group, keep, p); err != nil {
			return err
		}
	}
	for _, o := range group {
		// Where there is no keeper only all together hold what is named.
		c.classify(o, !anew && (keep == nil || o == *keep), true, true)
	}
	return nil
}

// keeper gives the newest object of a group that has all of a pack that is
// named, or nil.
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
		if p.within(has) {
			return &o, nil
		}
	}
	return nil, nil
}

// within tells whether all that is named is among the offsets.
func (p *MarkedPack) within(has map[uint32]bool) bool {
	for _, o := range p.offsets {
		if p.named(o) && !has[o] {
			return false
		}
	}
	return !p.Whole
}

// compact stores what is named of a pack anew where that is a small part of the
// object that is kept, or where there is none.
func (c *collection) compact(ctx context.Context, id string, group []object, keep *object, p *MarkedPack) (bool, error) {
	named, small, err := c.share(ctx, id, keep, p)
	if pack.IsDamage(err) {
		c.done.Damaged++
		return false, nil
	}
	if err != nil || !small || c.o.DryRun {
		return false, err
	}
	f := &pack.Reader{Store: c.gc.Packs, Org: c.org}
	w := &pack.Compactor{Packs: c.gc.Packs, Org: c.org}
	key, size, err := w.Write(ctx, id, named, w.From(ctx, f, id))
	var refused *stint.Error
	switch err := errors.Join(err, f.Close()); {
	case errors.As(err, &refused):
		return false, nil // there is no room: what is deleted makes some
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
	return true, pack.Reindex(c.gc.Index, c.org, keysOf(group), key, named)
}

// share gives what is named of a pack, and whether that is little.
func (c *collection) share(ctx context.Context, id string, keep *object, p *MarkedPack) (named []format.Segment, small bool, err error) {
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
		if p.named(s.Offset) {
			kept += int64(s.Length)
			named = append(named, s)
		}
	}
	return named, keep == nil || kept*100 < total*int64(c.o.Compact), nil
}

// settle carries out what was decided. What goes is forgotten by the index
// first.
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
			return fmt.Errorf("pardoning objects: %w", err)
		}
		c.done.Unmarked += int64(len(c.unmark))
	}
	if len(c.mark) > 0 {
		if err := c.roots.MarkObjects(ctx, c.org, c.done.Epoch, c.mark, stint.TimeOf(c.now)); err != nil {
			return fmt.Errorf("condemning objects: %w", err)
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
			return fmt.Errorf("forgetting packs: %w", err)
		}
	}
	for _, o := range objects {
		if err := c.gc.Packs.Delete(ctx, o.key); err != nil {
			return fmt.Errorf("deleting what nothing names: %w", err)
		}
	}
	c.count(objects)
	// The key of a root may be used again, which must not happen while a
	// collection that is slower than this one may be about to delete it: roots
	// are forgotten by the next one.
	if err := c.roots.UnmarkObjects(ctx, c.org, keys); err != nil {
		return fmt.Errorf("forgetting what is deleted: %w", err)
	}
	return nil
}

func (c *collection) count(deleted []object) {
	c.done.Deleted += int64(len(deleted))
	for _, o := range deleted {
		c.done.Freed += o.size
	}
}

// forget pardons what was condemned and is not there any more since an earlier
// collection.
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
		return fmt.Errorf("forgetting what is deleted: %w", err)
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
