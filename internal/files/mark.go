package files

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/stint-dev/stint/internal/blob"
)

// marking is what of an organisation's storage something names: trees by their
// digests, segments by a bit each. It costs some 4 bytes a segment of packs
// that are named, 32 a page and 150 a pack.
type marking struct {
	manifests *manifestStore
	org       string
	trees     map[hash]bool
	pages     map[hash]struct{} // that were walked, by their stored bytes
	packs     map[string]*markedPack
	found     func() // is called for each page
}

// markedPack is a pack that something names.
type markedPack struct {
	offsets []uint32 // of its segments
	bits    []uint64 // of those that are named
	whole   bool     // its footer cannot be read: all of it stays
	missing bool
}

// mark finds what the trees name. A tree that is not there names nothing; one
// that cannot be read ends it, as what it names would be deleted.
func (g *collector) mark(ctx context.Context, org string, live iter.Seq2[string, error], found func()) (*marking, error) {
	k := &marking{manifests: g.manifests, org: org, trees: map[hash]bool{}, pages: map[hash]struct{}{}, packs: map[string]*markedPack{}, found: found}
	for digest, err := range live {
		if err != nil {
			return nil, fmt.Errorf("finding what is named: %w", err)
		}
		d, ok := parseDigest(digest)
		if !ok || k.trees[d] {
			continue
		}
		if err := k.tree(ctx, digest); err != nil {
			return nil, fmt.Errorf("marking what the tree %s names: %w", digest, err)
		}
		k.trees[d] = true
	}
	return k, nil
}

// tree marks what the root of a tree names that readers find.
func (k *marking) tree(ctx context.Context, digest string) error {
	m := &manifest{store: k.manifests, org: k.org, digest: digest}
	err := m.open(ctx)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return k.root(ctx, m)
}

func (k *marking) root(ctx context.Context, m *manifest) error {
	r := pageReader{m: m}
	for i := range m.root.pages {
		p := &m.root.pages[i]
		if err := k.segment(ctx, m.root.packs[p.pack], p.offset); err != nil {
			return err
		}
		if _, walked := k.pages[p.sum]; walked {
			continue
		}
		entries, err := r.page(ctx, i)
		if err != nil {
			return err
		}
		for _, e := range entries {
			for j := range e.chunks {
				if err := k.segment(ctx, e.chunks[j].at.pack, e.chunks[j].at.offset); err != nil {
					return err
				}
			}
		}
		k.pages[p.sum] = struct{}{}
		k.found()
	}
	return nil
}

// segment marks the segment of a pack at an offset.
func (k *marking) segment(ctx context.Context, pack string, offset uint32) error {
	p := k.packs[pack]
	if p == nil {
		var err error
		if p, err = k.open(ctx, pack); err != nil {
			return err
		}
		k.packs[pack] = p
	}
	i, ok := slices.BinarySearch(p.offsets, offset)
	if ok {
		p.bits[i/64] |= 1 << (i % 64)
	} else if !p.missing {
		p.whole = true // its footer does not know what a tree does: nothing of it may go
	}
	return nil
}

func (k *marking) open(ctx context.Context, pack string) (*markedPack, error) {
	segments, err := k.manifests.packs.footer(ctx, k.org, pack)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return &markedPack{missing: true}, nil
	case isDamage(err):
		return &markedPack{whole: true}, nil
	case err != nil:
		return nil, err
	}
	p := &markedPack{offsets: make([]uint32, len(segments)), bits: make([]uint64, (len(segments)+63)/64)}
	for i, s := range segments {
		p.offsets[i] = s.offset
	}
	return p, nil
}

// named tells whether the segment at an offset is.
func (p *markedPack) named(offset uint32) bool {
	i, ok := slices.BinarySearch(p.offsets, offset)
	return p.whole || ok && p.bits[i/64]&(1<<(i%64)) != 0
}

// all tells whether every segment is named.
func (p *markedPack) all() bool {
	n := 0
	for i := range p.offsets {
		n += int(p.bits[i/64] >> (i % 64) & 1)
	}
	return p.whole || n == len(p.offsets)
}
