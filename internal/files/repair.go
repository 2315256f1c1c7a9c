package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// badPack is a pack that is not what it should be.
type badPack struct {
	id       string
	what     string
	segments map[uint32]*badSegment // those that are named, sound or not
	uses     int64
	used     []Use
}

// badSegment is a segment of such a pack.
type badSegment struct {
	segment
	valid bool
	data  []byte // where it was restored
}

// locate finds, of packs that are not what they should be, which segments are
// named, which of them are lost, and where that shows.
func (c *check) locate(ctx context.Context) error {
	f := &packReader{store: c.packs, org: c.org}
	v := &locator{c: c, f: f, w: &compactor{packs: c.packs, org: c.org}, told: map[string]map[string][]Use{}}
	for n, err := range c.live {
		if err == nil && c.badRoots[n.Digest] == "" {
			err = v.tree(ctx, n)
		}
		if err != nil {
			return errors.Join(err, f.close())
		}
	}
	return f.close()
}

// locator walks trees for the segments of bad packs. It serves one goroutine.
type locator struct {
	c    *check
	f    *packReader
	w    *compactor
	told map[string]map[string][]Use // of each tree, where the loss of a pack shows
}

func (v *locator) tree(ctx context.Context, n NamedTree) error {
	uses, ok := v.told[n.Digest]
	if !ok {
		m := &manifest{store: v.c.manifests, org: v.c.org, digest: n.Digest}
		if err := m.open(ctx); err != nil {
			return err
		}
		uses = map[string][]Use{}
		if err := v.pages(ctx, m, uses); err != nil {
			return err
		}
		v.told[n.Digest] = uses
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

func (v *locator) pages(ctx context.Context, m *manifest, uses map[string][]Use) error {
	r := pageReader{m: m}
	for i := range m.root.pages {
		p := &m.root.pages[i]
		id := m.root.packs[p.pack]
		lost, err := v.lost(ctx, id, segment{kind: pageSegment, hash: p.sum, offset: p.offset, stored: p.stored})
		if err != nil {
			return err
		}
		if lost {
			uses[id] = append(uses[id], Use{Path: p.first, Following: true})
			continue
		}
		entries, err := r.page(ctx, i)
		if isDamage(err) {
			continue // it changes while it is looked at
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

func (v *locator) entry(ctx context.Context, e *entry, uses map[string][]Use) error {
	in := ""
	for i := range e.chunks {
		k := &e.chunks[i]
		lost, err := v.lost(ctx, k.at.pack, segment{
			kind: chunkSegment, hash: k.hash, offset: k.at.offset, stored: k.at.stored, raw: k.raw, crc: k.at.crc,
		})
		if err != nil {
			return err
		}
		if lost && in != k.at.pack {
			in = k.at.pack
			uses[in] = append(uses[in], Use{Path: e.path})
		}
	}
	return nil
}

// lost tells whether a segment that a tree names is not there. One of a pack
// that is sound is not asked for.
func (v *locator) lost(ctx context.Context, id string, s segment) (bool, error) {
	p := v.c.badPacks[id]
	if p == nil {
		return false, nil
	}
	if known := p.segments[s.offset]; known != nil {
		return !known.valid, nil
	}
	b, err := v.w.from(ctx, v.f, id)(s)
	if err == nil {
		err = v.w.verify(s, b)
	}
	if err != nil && !isDamage(err) {
		return false, err
	}
	if s.kind == pageSegment && err == nil {
		s, err = v.c.manifests.describePage(s, b)
	}
	p.segments[s.offset] = &badSegment{segment: s, valid: err == nil}
	return err != nil, nil
}

// finish repairs, if it should, and tells of all damage.
func (c *check) finish(ctx context.Context) error {
	if c.o.Repair {
		if err := c.restore(ctx); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.badPacks)) {
		p := c.badPacks[id]
		d := Damage{Key: packKey(c.org, id), Problem: p.what, Uses: p.uses, Used: p.used}
		if c.index != nil {
			if err := c.index.Drop(c.org, []string{id}); err != nil {
				return fmt.Errorf("forgetting a damaged pack: %w", err)
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

// lost counts the named segments that are.
func (p *badPack) lost() (n int64) {
	for _, s := range p.segments {
		if !s.valid && s.data == nil {
			n++
		}
	}
	return n
}

// restore looks in all packs for what is lost.
func (c *check) restore(ctx context.Context) error {
	wanted := map[hash][]*badSegment{}
	for _, p := range c.badPacks {
		for _, s := range p.segments {
			if !s.valid {
				wanted[s.hash] = append(wanted[s.hash], s)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	w := &compactor{packs: c.packs, org: c.org}
	for info, err := range c.packs.List(ctx, c.org+"/packs/") {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		segments, err := segmentsOf(ctx, c.packs.Store, info.Key)
		if isDamage(err) {
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

// restoreFrom takes from an object what is wanted and sound there.
func (c *check) restoreFrom(ctx context.Context, w *compactor, key string, segments []segment, wanted map[hash][]*badSegment) error {
	_, n, _ := splitGeneration(key)
	packed := int64(0)
	for _, s := range segments {
		at := int64(s.offset)
		if n > 0 {
			at = packed
		}
		packed += int64(s.stored)
		for _, lost := range wanted[s.hash] {
			// Equal chunks are of one form, but for those of another compressor.
			if lost.data != nil || lost.kind != s.kind || lost.stored != s.stored {
				continue
			}
			b, err := fetch(ctx, c.packs.Store, key, at, int64(s.stored))
			if err == nil {
				err = w.verify(s, b)
			}
			if err == nil && s.kind == pageSegment {
				lost.raw, lost.crc = s.raw, s.crc
			}
			if isDamage(err) {
				break
			} else if err != nil {
				return err
			}
			lost.data = b
			c.again = c.again || s.kind == pageSegment
		}
	}
	return nil
}

// rewrite stores what is sound of a pack, and what was restored, anew; what
// there was goes, so that nobody takes it for what it says it holds.
func (c *check) rewrite(ctx context.Context, p *badPack) error {
	f := &packReader{store: c.packs, org: c.org}
	w := &compactor{packs: c.packs, org: c.org}
	read := w.from(ctx, f, p.id)
	to, left, err := c.writeLeft(ctx, p, w, read)
	if err := errors.Join(err, f.close()); err != nil {
		return err
	}
	key := packKey(c.org, p.id)
	all, err := laterGenerations(ctx, c.packs.Store, key)
	if err != nil {
		return err
	}
	former := []string{key}
	for _, g := range all {
		if g.key != to {
			former = append(former, g.key)
		}
	}
	if len(left) > 0 {
		if err := reindex(c.index, c.org, former, to, left); err != nil {
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

// writeLeft stores what is sound of a pack, and what was restored, if there is
// anything.
func (c *check) writeLeft(ctx context.Context, p *badPack, w *compactor, read func(segment) ([]byte, error)) (key string, left []segment, err error) {
	if err := c.unnamed(ctx, p, w, read); err != nil {
		return "", nil, err
	}
	for _, s := range p.segments {
		if s.valid || s.data != nil {
			left = append(left, s.segment)
		}
	}
	if len(left) == 0 {
		return "", nil, nil
	}
	slices.SortFunc(left, func(a, b segment) int { return cmp.Compare(a.offset, b.offset) })
	key, _, err = w.write(ctx, p.id, left, func(s segment) ([]byte, error) {
		if data := p.segments[s.offset].data; data != nil {
			return data, nil
		}
		return read(s)
	})
	return key, left, err
}

// unnamed adds those segments of a pack that no tree names, and that are sound:
// a commit may be about to.
func (c *check) unnamed(ctx context.Context, p *badPack, w *compactor, read func(segment) ([]byte, error)) error {
	segments, err := c.packs.footer(ctx, c.org, p.id)
	if isDamage(err) {
		return nil
	} else if err != nil {
		return err
	}
	for _, s := range segments {
		if p.segments[s.offset] != nil {
			continue
		}
		b, err := read(s)
		if err == nil {
			err = w.verify(s, b)
		}
		if isDamage(err) {
			continue
		} else if err != nil {
			return err
		}
		p.segments[s.offset] = &badSegment{segment: s, valid: true}
	}
	return nil
}

// finishRoots tells of damaged roots. One that another stands for can go.
func (c *check) finishRoots(ctx context.Context) error {
	for _, digest := range slices.Sorted(maps.Keys(c.badRoots)) {
		key := manifestKey(c.org, digest)
		d := Damage{Key: key, Problem: c.badRoots[digest]}
		if c.o.Repair {
			at, err := c.gc.locateRoot(ctx, c.org, digest, marked{org: c.org})
			if err != nil {
				return err
			}
			if d.Repaired = at.valid; at.valid {
				for _, k := range at.refused {
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
