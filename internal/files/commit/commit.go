package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
)

// Commit is a snapshot that is being stored.
type Commit struct {
	*Committer
	Org      string
	Dedup    *dedup
	Writer   *pack.Writer
	Manifest *manifest.Writer
	parent   string // digest of the parent version, or ""
	Verifies bool   // read stored content back before the root is published
}

// Begin returns a new commit. If confidential is set, the commit writes its packs
// to the sealed store. The caller must close the commit.
func (b *Committer) Begin(ctx context.Context, org string, confidential bool) (*Commit, error) {
	if err := pack.CheckOrg(org); err != nil {
		return nil, err
	}
	prefix := ""
	if confidential {
		prefix = pack.SealedPrefix
	}
	marked, err := b.GC.Marked(ctx, org)
	if err != nil {
		return nil, err
	}
	c := &Commit{
		Committer: b, Org: org, Writer: pack.NewWriter(ctx, b.Packs, org, prefix), Manifest: manifest.NewWriter(b.Manifests, b.Packs.TempDir, b.RootBytes),
		Dedup: &dedup{
			ctx: ctx, org: org, Index: b.Index, marked: marked, places: gc.NewPlaceChecker(b.Packs, org, marked),
			Chunks: newChunkSet(b.Packs.TempDir), FromIndex: map[string][]string{},
		},
	}
	if len(marked.Keys) > 0 {
		c.Manifest.IsMarked = marked.IsPackMarked
	}
	return c, nil
}

// BeginAfter is like Begin, but the commit reuses the chunks and pages of the tree
// with the digest parent ("" = none).
func (b *Committer) BeginAfter(ctx context.Context, org, parent string, confidential bool) (*Commit, error) {
	for again := true; ; again = false {
		c, err := b.Begin(ctx, org, confidential)
		if err != nil || parent == "" {
			return c, err
		}
		if err = c.inherit(ctx, parent); err == nil {
			return c, nil
		}
		err = errors.Join(fmt.Errorf("reading the parent version: %w", err), c.Close())
		if !again || !errors.Is(err, blob.ErrNotFound) {
			return nil, err
		}
		// The root may have been replaced by another root of an equal tree while
		// it was read.
	}
}

// Close frees memory and disk space.
func (c *Commit) Close() error {
	return errors.Join(c.Writer.Close(), c.Dedup.Chunks.Close(), c.Manifest.Close())
}

// inherit makes the pages and chunks of the parent version available for reuse.
func (c *Commit) inherit(ctx context.Context, parent string) error {
	m, err := c.Manifests.Open(ctx, c.Org, parent)
	if err != nil {
		return err
	}
	if c.Dedup.marked.Keys[m.Key] {
		// A collection marked the root while the tree was unreferenced. Packs of
		// the tree that were marked before may be deleted already, so nothing of
		// the parent is reused. If the root is not marked, the packs that are not
		// marked exist, because collections mark roots before they delete packs.
		return nil
	}
	c.parent = parent
	c.Manifest.Base = m
	for e, err := range m.Entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.Chunks {
			at := e.Chunks[i].Place
			holds, err := c.Dedup.places.Usable(ctx, &at)
			if err == nil && holds {
				err = c.Dedup.Chunks.add(e.Chunks[i].Hash, at)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// CopyMarkedChunks updates the places of the chunks of e that the commit must not
// refer to (see gc.PlaceChecker.Usable). It copies these chunks into new packs,
// unless the commit has equal chunks at other places.
func (c *Commit) CopyMarkedChunks(ctx context.Context, e *format.Entry) error {
	var x format.Expander
	for i := range e.Chunks {
		k := &e.Chunks[i]
		if holds, err := c.Dedup.places.Usable(ctx, &k.Place); err != nil {
			return err
		} else if holds {
			continue
		}
		at, ok, err := c.Dedup.Chunks.find(k.Hash)
		if !ok && err == nil {
			at, err = c.copyChunk(ctx, &x, k)
		}
		if err != nil {
			return fmt.Errorf("storing a part of %q again: %w", e.Path, err)
		}
		k.Place = at
	}
	return nil
}

func (c *Commit) copyChunk(ctx context.Context, x *format.Expander, k *format.Chunk) (format.Place, error) {
	b, err := pack.ReadRange(ctx, c.Packs, pack.Key(c.Org, k.Place.Pack), int64(k.Place.Offset), int64(k.Place.Length))
	if err != nil {
		return format.Place{}, err
	}
	if err := x.Expand(make([]byte, k.Size), b, k); err != nil {
		return format.Place{}, err
	}
	at, err := c.Writer.Add(format.Segment{Kind: format.ChunkSegment, Hash: k.Hash, Size: k.Size, CRC: k.Place.CRC}, b)
	if err != nil {
		return format.Place{}, err
	}
	return at, c.Dedup.Chunks.add(k.Hash, at)
}

// Finish stores the new packs, then the root, and returns a reference to the
// snapshot. If an equal tree is stored already, Finish deletes the new packs and
// refers to that tree.
func (c *Commit) Finish(ctx context.Context) (manifest.Ref, error) {
	digest, err := c.Manifest.Finish()
	if err != nil {
		return manifest.Ref{}, errors.Join(err, c.Writer.Withdraw(ctx))
	}
	root := &c.Manifest.Root
	ref := manifest.Ref{Digest: digest, Size: root.Size, Files: root.Files}
	at, err := c.locateRoot(ctx, digest)
	switch {
	case err != nil:
		return manifest.Ref{}, errors.Join(err, c.Writer.Withdraw(ctx))
	case at.Valid:
		c.discard(ctx)
		ref.Epoch = c.Dedup.marked.Epoch
		if err := c.verifyStored(ctx, at.Key, digest); err != nil {
			return manifest.Ref{}, err
		}
		return ref, c.GC.DeleteStaleRoots(ctx, c.Org, c.Dedup.marked, at.Refused)
	}
	err = c.checkIndexedPacks(ctx)
	if err == nil {
		err = c.Manifest.StorePages(c.Writer)
	}
	if err == nil {
		err = c.Writer.Publish(ctx)
	}
	if err == nil {
		err = c.revalidate(ctx, digest)
	}
	if err == nil && c.Verifies {
		err = c.verify(ctx, &manifest.Manifest{Store: c.Manifests, Org: c.Org, Digest: digest, Root: root})
	}
	if err != nil {
		return manifest.Ref{}, errors.Join(err, c.Writer.Withdraw(ctx))
	}
	ref.Epoch = c.Dedup.marked.Epoch
	return ref, c.publish(ctx, digest, at)
}

// locateRoot looks for a stored root of an equal tree. If the tree equals the parent,
// its root is not validated: the parent was published and is not marked.
func (c *Commit) locateRoot(ctx context.Context, digest string) (gc.RootLocation, error) {
	key := pack.ManifestKey(c.Org, digest)
	there, err := c.Packs.Exists(ctx, key)
	if c.GC.Database == nil || err != nil {
		return gc.RootLocation{Key: key, Valid: there}, err
	}
	if c.Dedup.marked.Keys[key] || there && digest != c.parent {
		return c.GC.LocateRoot(ctx, c.Org, digest, c.Dedup.marked)
	}
	return gc.RootLocation{Key: key, Valid: there}, nil
}

// revalidate returns an error that wraps gc.ErrStale if a collection has begun since
// the commit began, and segments of the new tree are now marked or deleted.
func (c *Commit) revalidate(ctx context.Context, digest string) error {
	now, err := c.GC.Marked(ctx, c.Org)
	if err != nil || now.Epoch == c.Dedup.marked.Epoch {
		return err
	}
	c.Dedup.marked = now
	m := &manifest.Manifest{Store: c.Manifests, Org: c.Org, Digest: digest, Root: &c.Manifest.Root}
	err = c.GC.Intact(ctx, m, now)
	if errors.Is(err, gc.ErrMissingSegment) || pack.IsDamage(err) {
		return fmt.Errorf("%w: %w", gc.ErrStale, err)
	}
	return err
}

// publish stores the root. The packs that the root refers to must be stored already.
func (c *Commit) publish(ctx context.Context, digest string, at gc.RootLocation) error {
	object := c.Manifest.Root.Encode(c.Manifests.ZstdOut)
	err := c.Writer.Store.Put(ctx, at.Key, bytes.NewReader(object), int64(len(object)))
	switch {
	case err == nil:
		if err := c.verifyRoot(ctx, at.Key, digest); err != nil {
			return err
		}
		c.Writer.AddToIndex(c.Index)
		return c.GC.DeleteStaleRoots(ctx, c.Org, c.Dedup.marked, at.Refused)
	case errors.Is(err, blob.ErrExists):
		return c.adoptExisting(ctx, digest)
	}
	err = fmt.Errorf("storing a manifest: %w", err)
	check, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// A remote store may have stored the manifest although the request failed. The
	// packs are deleted only if it is known to be missing.
	if exists, unclear := c.Packs.Exists(check, at.Key); exists || unclear != nil {
		return errors.Join(err, unclear)
	}
	return errors.Join(err, c.Writer.Withdraw(ctx))
}

// adoptExisting makes the commit refer to an equal tree that another commit stored
// meanwhile. If the root of that tree is unusable, the error wraps gc.ErrStale.
func (c *Commit) adoptExisting(ctx context.Context, digest string) error {
	c.discard(ctx)
	if c.GC.Database == nil {
		return nil
	}
	at, err := c.GC.LocateRoot(ctx, c.Org, digest, c.Dedup.marked)
	if err != nil {
		return err
	}
	if !at.Valid {
		return fmt.Errorf("%w: an equal tree was stored meanwhile and is marked", gc.ErrStale)
	}
	return c.GC.DeleteStaleRoots(ctx, c.Org, c.Dedup.marked, at.Refused)
}

// discard deletes the new packs, because an equal tree is stored. A pack that
// cannot be deleted is garbage and does not fail the commit.
func (c *Commit) discard(ctx context.Context) { _ = c.Writer.Withdraw(ctx) }

// Committer begins commits. It is safe for concurrent use.
type Committer struct {
	Packs     *pack.Store
	Manifests *manifest.Store
	GC        *gc.Collector
	Index     pack.ChunkIndex
	RootBytes int // maximum size of a root, see limits.Limits
}

// PrepareMarkedBase prepares the reuse of a base. If the root of base is marked,
// packs of base may be deleted already, see inherit. In this case, PrepareMarkedBase
// records the missing packs, so that the commit checks their chunks before reuse.
func (c *Commit) PrepareMarkedBase(ctx context.Context, base *manifest.Manifest) error {
	if !c.Dedup.marked.Keys[base.Key] {
		c.parent = base.Digest
		return nil
	}
	gone, err := c.Packs.Missing(ctx, c.Org, base.Root.Packs)
	for _, id := range gone {
		c.Dedup.marked.Doubtful[pack.Key(c.Org, id)] = true
	}
	return err
}
