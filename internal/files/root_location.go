package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
)

// rootPlace says where the root of a tree is, or goes. Readers look at the first
// root of a tree where there is one, so those that may not be built upon have to
// go before the tree is named.
type rootLocation struct {
	key     string
	valid   bool     // one is there, and may be built upon
	refused []string // to be deleted
}

func (g *collector) locateRoot(ctx context.Context, org, digest string, c marked) (at rootLocation, err error) {
	first := manifestKey(org, digest)
	all, err := g.rootGenerations(ctx, first)
	if err != nil {
		return at, err
	}
	next := 0
	for _, r := range all {
		next = max(next, r.n+1)
		if !at.valid && !c.keys[r.key] {
			m, err := g.validRoot(ctx, org, digest, r.key, c)
			if err != nil {
				return at, err
			}
			if m != nil {
				at.key, at.valid = r.key, true
				continue
			}
		}
		at.refused = append(at.refused, r.key)
	}
	if !at.valid {
		for c.keys[generationKey(first, next)] {
			next++
		}
		at.key = generationKey(first, next)
	}
	return at, nil
}

// rootGenerations lists the roots of a tree that exist, the newest first.
func (g *collector) rootGenerations(ctx context.Context, first string) ([]generation, error) {
	all, err := laterGenerations(ctx, g.packs.Store, first)
	if err != nil {
		return nil, err
	}
	there, err := g.packs.exists(ctx, first)
	if there {
		all = append(all, generation{0, first})
	}
	return all, err
}

// soundRoot opens a root, nil where something that it names is gone, damaged or
// condemned.
func (g *collector) validRoot(ctx context.Context, org, digest, key string, c marked) (*manifest, error) {
	m := &manifest{store: g.manifests, org: org, digest: digest}
	err := m.openAt(ctx, key)
	if err == nil {
		err = g.intact(ctx, m, c)
	}
	if isDamage(err) || errors.Is(err, errMissingSegment) {
		return nil, nil //nolint:nilnil // as told
	}
	return m, err
}

// replant stores anew, at its place, the root of a tree of which nothing but
// the root is condemned; false where there is no such tree. What the tree names
// was there in the epoch of c and not condemned, so no collection deletes it
// before one that sees whether the tree was named.
func (g *collector) recreateRoot(ctx context.Context, org, digest string, c marked, at rootLocation) (bool, error) {
	for _, key := range at.refused {
		if !c.keys[key] {
			continue // was looked into already
		}
		m, err := g.validRoot(ctx, org, digest, key, c)
		if err != nil {
			return false, err
		}
		if m != nil {
			return g.writeRoot(ctx, m, at.key)
		}
	}
	return false, nil
}

// plant stores the root of m under another key; false where something is there
// already.
func (g *collector) writeRoot(ctx context.Context, m *manifest, key string) (bool, error) {
	to := blob.Store(g.packs)
	if i := slices.IndexFunc(m.root.packs, func(id string) bool { return strings.HasPrefix(id, sealedPrefix) }); i >= 0 {
		to = g.packs.writeTo(m.root.packs[i])
	}
	object := m.root.encode(g.manifests.zstdOut)
	err := to.Put(ctx, key, bytes.NewReader(object), int64(len(object)))
	if errors.Is(err, blob.ErrExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("storing a manifest anew: %w", err)
	}
	if err := (&manifest{store: g.manifests, org: m.org, digest: m.digest}).openAt(ctx, key); err != nil {
		return false, fmt.Errorf("reading a manifest that was stored anew: %w", err)
	}
	return true, nil
}

// retire deletes roots that may not be built upon. A list that is not of the
// present epoch is no reason to: the tree cannot be named under it, and Renew
// judges again.
func (g *collector) deleteStaleRoots(ctx context.Context, org string, c marked, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if now, err := g.marked(ctx, org); err != nil || now.epoch != c.epoch {
		return err
	}
	for _, k := range keys {
		if err := g.packs.Delete(ctx, k); err != nil {
			return fmt.Errorf("deleting the former root of a tree: %w", err)
		}
	}
	return nil
}
