package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// badPack is a damaged or missing pack.
type badPack struct {
	id       string
	what     string
	segments map[uint32]*badSegment // by offset: referenced segments, valid or not, and those of addUnreferenced
	uses     int64
	used     []Use
}

// badSegment is a segment of a bad pack. The segment itself may be valid.
type badSegment struct {
	format.Segment
	valid bool
	data  []byte // bytes of the segment from another pack; nil if not restored
}

// locate finds the referenced segments of bad packs, determines which of them are
// lost, and records the affected files.
func (c *check) locate(ctx context.Context) error {
	f := &pack.Reader{Store: c.packs, Org: c.org}
	v := &locator{c: c, f: f, w: &pack.Compactor{Packs: c.packs, Org: c.org}, seen: map[string]map[string][]Use{}}
	for n, err := range c.live {
		if err == nil && c.badRoots[n.Digest] == "" {
			err = v.tree(ctx, n)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// locator searches trees for references to segments of bad packs. It is not safe for
// concurrent use.
type locator struct {
	c    *check
	f    *pack.Reader
	w    *pack.Compactor
	seen map[string]map[string][]Use // by tree and pack: the places that lost segments affect
}

func (v *locator) tree(ctx context.Context, n NamedTree) error {
	uses, ok := v.seen[n.Digest]
	if !ok {
		m := &manifest.Manifest{Store: v.c.manifests, Org: v.c.org, Digest: n.Digest}
		if err := m.ReadRoot(ctx); err != nil {
			return err
		}
		uses = map[string][]Use{}
		if err := v.pages(ctx, m, uses); err != nil {
			return err
		}
		v.seen[n.Digest] = uses
	}
	for id, some := range uses {
		p := v.c.badPacks[id]
		p.uses += int64(len(some))
		for _, u := range some[:min(len(some), max(0, v.c.o.Limit-len(p.used)))] {
			u.Name = n.Name
			p.used = append(p.used, u)
		}
	}
	return nil
}

func (v *locator) pages(ctx context.Context, m *manifest.Manifest, uses map[string][]Use) error {
	r := manifest.PageReader{M: m}
	for i := range m.Root.Pages {
		p := &m.Root.Pages[i]
		id := m.Root.Packs[p.Pack]
		lost, err := v.lost(ctx, id, format.Segment{Kind: format.PageSegment, Hash: p.Sum, Offset: p.Offset, Length: p.Length})
		if err != nil {
			return err
		}
		if lost {
			uses[id] = append(uses[id], Use{Path: p.First, Following: true})
			continue
		}
		entries, err := r.Page(ctx, i)
		if pack.IsDamage(err) {
			continue // the pack changed during the check
		} else if err != nil {
			return err
		}
		for _, e := range entries {
			if err := v.entry(ctx, e, uses); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *locator) entry(ctx context.Context, e *format.Entry, uses map[string][]Use) error {
	in := ""
	for i := range e.Chunks {
		k := &e.Chunks[i]
		lost, err := v.lost(ctx, k.Place.Pack, format.Segment{
			Kind: format.ChunkSegment, Hash: k.Hash, Offset: k.Place.Offset, Length: k.Place.Length, Size: k.Size, CRC: k.Place.CRC,
		})
		if err != nil {
			return err
		}
		if lost && in != k.Place.Pack {
			in = k.Place.Pack
			uses[in] = append(uses[in], Use{Path: e.Path})
		}
	}
	return nil
}

// lost reports whether a segment that a tree refers to is missing or damaged. It
// assumes that the segments of all packs except bad packs are valid.
func (v *locator) lost(ctx context.Context, id string, s format.Segment) (bool, error) {
	p := v.c.badPacks[id]
	if p == nil {
		return false, nil
	}
	if known := p.segments[s.Offset]; known != nil {
		return !known.valid, nil
	}
	b, err := v.w.From(ctx, v.f, id)(s)
	if err == nil {
		err = v.w.Verify(s, b)
	}
	if err != nil && !pack.IsDamage(err) {
		return false, err
	}
	if s.Kind == format.PageSegment && err == nil {
		s, err = v.c.manifests.DescribePage(s, b)
	}
	p.segments[s.Offset] = &badSegment{Segment: s, valid: err == nil}
	return err != nil, nil
}

// finish repairs if requested and reports all damage.
func (c *check) finish(ctx context.Context) error {
	if c.o.Repair {
		if err := c.restore(ctx); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.badPacks)) {
		p := c.badPacks[id]
		d := Damage{Key: pack.Key(c.org, id), Problem: p.what, Uses: p.uses, Used: p.used}
		if c.index != nil {
			if err := c.index.Drop(c.org, []string{id}); err != nil {
				return fmt.Errorf("dropping a damaged pack from the index: %w", err)
			}
		}
		if c.o.Repair {
			if err := c.rewrite(ctx, p); err != nil {
				return err
			}
		}
		d.Segments = p.lost()
		d.Repaired = c.o.Repair && d.Segments == 0
		c.note(d)
	}
	return c.finishRoots(ctx)
}

// lost returns the number of segments that are neither valid nor restored.
func (p *badPack) lost() (n int64) {
	for _, s := range p.segments {
		if !s.valid && s.data == nil {
			n++
		}
	}
	return n
}

// restore searches all packs of the organisation for copies of lost segments.
func (c *check) restore(ctx context.Context) error {
	wanted := map[format.Hash][]*badSegment{}
	for _, p := range c.badPacks {
		for _, s := range p.segments {
			if !s.valid {
				wanted[s.Hash] = append(wanted[s.Hash], s)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	w := &pack.Compactor{Packs: c.packs, Org: c.org}
	for info, err := range c.packs.List(ctx, c.org+"/packs/") {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		segments, err := pack.ReadSegments(ctx, c.packs.Store, info.Key)
		if pack.IsDamage(err) {
			continue
		} else if err != nil {
			return err
		}
		if err := c.restoreFrom(ctx, w, info.Key, segments, wanted); err != nil {
			return err
		}
	}
	return nil
}

// restoreFrom restores wanted segments from the pack object with the given key.
func (c *check) restoreFrom(ctx context.Context, w *pack.Compactor, key string, segments []format.Segment, wanted map[format.Hash][]*badSegment) error {
	_, n, _ := pack.SplitGeneration(key)
	packed := int64(0)
	for _, s := range segments {
		at := int64(s.Offset)
		if n > 0 {
			at = packed
		}
		packed += int64(s.Length)
		for _, lost := range wanted[s.Hash] {
			// A segment of an equal chunk has another length if another
			// compressor made it. Then it does not fit the references.
			if lost.data != nil || lost.Kind != s.Kind || lost.Length != s.Length {
				continue
			}
			b, err := pack.ReadRange(ctx, c.packs.Store, key, at, int64(s.Length))
			if err == nil {
				err = w.Verify(s, b)
			}
			if err == nil && s.Kind == format.PageSegment {
				lost.Size, lost.CRC = s.Size, s.CRC
			}
			if pack.IsDamage(err) {
				break
			} else if err != nil {
				return err
			}
			lost.data = b
			c.again = c.again || s.Kind == format.PageSegment
		}
	}
	return nil
}

// rewrite stores the valid and the restored segments of a pack in a new object and
// deletes the pack's former objects.
func (c *check) rewrite(ctx context.Context, p *badPack) error {
	f := &pack.Reader{Store: c.packs, Org: c.org}
	w := &pack.Compactor{Packs: c.packs, Org: c.org}
	read := w.From(ctx, f, p.id)
	to, left, err := c.writeLeft(ctx, p, w, read)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	key := pack.Key(c.org, p.id)
	all, err := pack.LaterGenerations(ctx, c.packs.Store, key)
	if err != nil {
		return err
	}
	former := []string{key}
	for _, g := range all {
		if g.Key != to {
			former = append(former, g.Key)
		}
	}
	if len(left) > 0 {
		if err := pack.Reindex(c.index, c.org, former, to, left); err != nil {
			return err
		}
	}
	for _, key := range former {
		if err := c.packs.Delete(ctx, key); err != nil {
			return fmt.Errorf("deleting a damaged pack: %w", err)
		}
	}
	return nil
}

// writeLeft stores the valid and the restored segments of a pack in a new object. It
// returns the key of the object and its segments; none if no segment is left.
func (c *check) writeLeft(ctx context.Context, p *badPack, w *pack.Compactor, read func(format.Segment) ([]byte, error)) (key string, left []format.Segment, err error) {
	if err := c.addUnreferenced(ctx, p, w, read); err != nil {
		return "", nil, err
	}
	for _, s := range p.segments {
		if s.valid || s.data != nil {
			left = append(left, s.Segment)
		}
	}
	if len(left) == 0 {
		return "", nil, nil
	}
	slices.SortFunc(left, func(a, b format.Segment) int { return cmp.Compare(a.Offset, b.Offset) })
	key, _, err = w.Write(ctx, p.id, left, func(s format.Segment) ([]byte, error) {
		if data := p.segments[s.Offset].data; data != nil {
			return data, nil
		}
		return read(s)
	})
	return key, left, err
}

// addUnreferenced adds the valid segments of a pack that no tree refers to, because
// a running commit may be about to refer to them.
func (c *check) addUnreferenced(ctx context.Context, p *badPack, w *pack.Compactor, read func(format.Segment) ([]byte, error)) error {
	segments, err := c.packs.Footer(ctx, c.org, p.id)
	if pack.IsDamage(err) {
		return nil
	} else if err != nil {
		return err
	}
	for _, s := range segments {
		if p.segments[s.Offset] != nil {
			continue
		}
		b, err := read(s)
		if err == nil {
			err = w.Verify(s, b)
		}
		if pack.IsDamage(err) {
			continue
		} else if err != nil {
			return err
		}
		p.segments[s.Offset] = &badSegment{Segment: s, valid: true}
	}
	return nil
}

// finishRoots reports damaged roots. With Repair, it deletes a damaged root if
// another, valid root of the same tree is stored.
func (c *check) finishRoots(ctx context.Context) error {
	for _, digest := range slices.Sorted(maps.Keys(c.badRoots)) {
		key := pack.ManifestKey(c.org, digest)
		d := Damage{Key: key, Problem: c.badRoots[digest]}
		if c.o.Repair {
			at, err := c.gc.LocateRoot(ctx, c.org, digest, gc.Marks{Org: c.org})
			if err != nil {
				return err
			}
			if d.Repaired = at.Valid; at.Valid {
				for _, k := range at.Refused {
					if err := c.packs.Delete(ctx, k); err != nil {
						return fmt.Errorf("deleting a damaged root: %w", err)
					}
				}
				c.again = true
			}
		}
		for n, err := range c.live {
			if err != nil {
				return err
			}
			if n.Digest != digest {
				continue
			}
			if d.Uses++; len(d.Used) < c.o.Limit {
				d.Used = append(d.Used, Use{Name: n.Name})
			}
		}
		c.note(d)
	}
	return nil
}
