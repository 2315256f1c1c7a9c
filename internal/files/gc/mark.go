package gc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Marking records which objects of an organisation are referenced: trees by digest,
// and segments of packs with one bit each. It takes about 4 bytes of memory per
// segment of a referenced pack, 32 per page, and 150 per pack.
type Marking struct {
	manifests *manifest.Store
	org       string
	Trees     map[format.Hash]bool
	pages     map[format.Hash]struct{} // pages that were read, by the hash of their stored bytes
	Packs     map[string]*MarkedPack
	found     func() // called for each distinct page
}

// NewMarking returns an empty marking, which calls found for each distinct page.
func NewMarking(m *manifest.Store, org string, found func()) *Marking {
	return &Marking{manifests: m, org: org, Trees: map[format.Hash]bool{}, pages: map[format.Hash]struct{}{}, Packs: map[string]*MarkedPack{}, found: found}
}

// MarkedPack is a referenced pack.
type MarkedPack struct {
	offsets []uint32 // of its segments, ascending
	bits    []uint64 // bit i is set if segment i is referenced
	Whole   bool     // the footer is unreadable or incomplete: keep the whole pack
	Missing bool     // the pack does not exist
}

// mark finds everything that the trees in live refer to. It ignores missing trees. If
// a tree is unreadable, mark returns an error, because the content of the tree would
// be deleted otherwise.
func (g *Collector) mark(ctx context.Context, org string, live iter.Seq2[string, error], found func()) (*Marking, error) {
	k := NewMarking(g.Manifests, org, found)
	for digest, err := range live {
		if err != nil {
			return nil, fmt.Errorf("listing referenced trees: %w", err)
		}
		d, ok := pack.ParseDigest(digest)
		if !ok || k.Trees[d] {
			continue
		}
		if err := k.tree(ctx, digest); err != nil {
			return nil, fmt.Errorf("marking the content of the tree %s: %w", digest, err)
		}
		k.Trees[d] = true
	}
	return k, nil
}

// tree marks everything that a tree refers to, by the root that readers use. It
// ignores a missing tree.
func (k *Marking) tree(ctx context.Context, digest string) error {
	m := &manifest.Manifest{Store: k.manifests, Org: k.org, Digest: digest}
	err := m.ReadRoot(ctx)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return k.Root(ctx, m)
}

// Root marks everything that the root of m refers to.
func (k *Marking) Root(ctx context.Context, m *manifest.Manifest) error {
	r := manifest.PageReader{M: m}
	for i := range m.Root.Pages {
		p := &m.Root.Pages[i]
		if err := k.segment(ctx, m.Root.Packs[p.Pack], p.Offset); err != nil {
			return err
		}
		if _, walked := k.pages[p.Sum]; walked {
			continue
		}
		entries, err := r.Page(ctx, i)
		if err != nil {
			return err
		}
		for _, e := range entries {
			for j := range e.Chunks {
				if err := k.segment(ctx, e.Chunks[j].Place.Pack, e.Chunks[j].Place.Offset); err != nil {
					return err
				}
			}
		}
		k.pages[p.Sum] = struct{}{}
		k.found()
	}
	return nil
}

// segment marks the segment of a pack at an offset.
func (k *Marking) segment(ctx context.Context, packID string, offset uint32) error {
	p := k.Packs[packID]
	if p == nil {
		var err error
		if p, err = k.open(ctx, packID); err != nil {
			return err
		}
		k.Packs[packID] = p
	}
	i, ok := slices.BinarySearch(p.offsets, offset)
	if ok {
		p.bits[i/64] |= 1 << (i % 64)
	} else if !p.Missing {
		p.Whole = true // the footer lacks a referenced segment: keep the whole pack
	}
	return nil
}

func (k *Marking) open(ctx context.Context, packID string) (*MarkedPack, error) {
	segments, err := k.manifests.Packs.Footer(ctx, k.org, packID)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return &MarkedPack{Missing: true}, nil
	case pack.IsDamage(err):
		return &MarkedPack{Whole: true}, nil
	case err != nil:
		return nil, err
	}
	p := &MarkedPack{offsets: make([]uint32, len(segments)), bits: make([]uint64, (len(segments)+63)/64)}
	for i, s := range segments {
		p.offsets[i] = s.Offset
	}
	return p, nil
}

// isReferenced reports whether the segment at an offset is referenced, or the whole
// pack must be kept.
func (p *MarkedPack) isReferenced(offset uint32) bool {
	i, ok := slices.BinarySearch(p.offsets, offset)
	return p.Whole || ok && p.bits[i/64]&(1<<(i%64)) != 0
}

// allReferenced reports whether every segment is referenced, or the whole pack must
// be kept.
func (p *MarkedPack) allReferenced() bool {
	n := 0
	for i := range p.offsets {
		n += int(p.bits[i/64] >> (i % 64) & 1)
	}
	return p.Whole || n == len(p.offsets)
}
