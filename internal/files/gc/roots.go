package gc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// RootLocation is the place of a tree's root. Readers use the original root if it
// exists, so unusable roots must be deleted before the tree is published. A root is
// usable if neither the root nor anything it refers to is deleted, damaged, or
// marked.
type RootLocation struct {
	Key     string   // key of the usable root; if there is none, key for a new root
	Valid   bool     // a usable root exists
	Refused []string // keys of unusable roots
}

// LocateRoot finds a usable root of a tree. If there is none, it chooses the key for
// a new root.
func (g *Collector) LocateRoot(ctx context.Context, org, digest string, c Marks) (at RootLocation, err error) {
	first := pack.ManifestKey(org, digest)
	all, err := g.rootGenerations(ctx, first)
	if err != nil {
		return at, err
	}
	next := 0
	for _, r := range all {
		next = max(next, r.N+1)
		if !at.Valid && !c.Keys[r.Key] {
			m, err := g.validRoot(ctx, org, digest, r.Key, c)
			if err != nil {
				return at, err
			}
			if m != nil {
				at.Key, at.Valid = r.Key, true
				continue
			}
		}
		at.Refused = append(at.Refused, r.Key)
	}
	if !at.Valid {
		for c.Keys[pack.GenerationKey(first, next)] {
			next++
		}
		at.Key = pack.GenerationKey(first, next)
	}
	return at, nil
}

// rootGenerations lists the existing roots of a tree, the newest first.
func (g *Collector) rootGenerations(ctx context.Context, first string) ([]pack.Generation, error) {
	all, err := pack.LaterGenerations(ctx, g.Packs.Store, first)
	if err != nil {
		return nil, err
	}
	there, err := g.Packs.Exists(ctx, first)
	if there {
		all = append(all, pack.Generation{Key: first})
	}
	return all, err
}

// validRoot opens the root with the given key. If the root is damaged or refers to
// something deleted, damaged, or marked, validRoot returns nil.
func (g *Collector) validRoot(ctx context.Context, org, digest, key string, c Marks) (*manifest.Manifest, error) {
	m := &manifest.Manifest{Store: g.Manifests, Org: org, Digest: digest}
	err := m.ReadRootAt(ctx, key)
	if err == nil {
		err = g.Intact(ctx, m, c)
	}
	if pack.IsDamage(err) || errors.Is(err, ErrMissingSegment) {
		return nil, nil //nolint:nilnil // see above
	}
	return m, err
}

// recreateRoot writes another root for a tree of which only the root is marked. For
// other trees it returns false. The content of the tree exists and is not marked in
// the epoch of c, so a collection deletes it only after checking whether the tree was
// published.
func (g *Collector) recreateRoot(ctx context.Context, org, digest string, c Marks, at RootLocation) (bool, error) {
	for _, key := range at.Refused {
		if !c.Keys[key] {
			continue // LocateRoot has checked this root
		}
		m, err := g.validRoot(ctx, org, digest, key, c)
		if err != nil {
			return false, err
		}
		if m != nil {
			return g.writeRoot(ctx, m, at.Key)
		}
	}
	return false, nil
}

// writeRoot stores the root of m under another key and reads it back. If the key
// exists, writeRoot returns false.
func (g *Collector) writeRoot(ctx context.Context, m *manifest.Manifest, key string) (bool, error) {
	to := blob.Store(g.Packs)
	if i := slices.IndexFunc(m.Root.Packs, func(id string) bool { return strings.HasPrefix(id, pack.SealedPrefix) }); i >= 0 {
		to = g.Packs.WriteTo(m.Root.Packs[i])
	}
	object := m.Root.Encode(g.Manifests.ZstdOut)
	err := to.Put(ctx, key, bytes.NewReader(object), int64(len(object)))
	if errors.Is(err, blob.ErrExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("storing a manifest again: %w", err)
	}
	if err := (&manifest.Manifest{Store: g.Manifests, Org: m.Org, Digest: m.Digest}).ReadRootAt(ctx, key); err != nil {
		return false, fmt.Errorf("reading a manifest that was stored again: %w", err)
	}
	return true, nil
}

// DeleteStaleRoots deletes the unusable roots with the given keys. If the epoch of c
// has ended, it deletes nothing: the tree cannot be published in that epoch, and Renew
// locates the roots again.
func (g *Collector) DeleteStaleRoots(ctx context.Context, org string, c Marks, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if now, err := g.Marked(ctx, org); err != nil || now.Epoch != c.Epoch {
		return err
	}
	for _, k := range keys {
		if err := g.Packs.Delete(ctx, k); err != nil {
			return fmt.Errorf("deleting the former root of a tree: %w", err)
		}
	}
	return nil
}
