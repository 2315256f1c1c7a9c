package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/blob"
)

// commit is a version in the making.
type commit struct {
	*committer
	org      string
	dedup    *dedup
	writer   *packer
	manifest *manifestWriter
	parent   string // the digest that is built upon, or ""
	verifies bool   // what it stored is read back before it counts
}

// begin prepares a commit. The caller closes it.
func (b *committer) begin(ctx context.Context, org string, confidential bool) (*commit, error) {
	if err := checkOrg(org); err != nil {
		return nil, err
	}
	prefix := ""
	if confidential {
		prefix = sealedPrefix
	}
	marked, err := b.gc.marked(ctx, org)
	if err != nil {
		return nil, err
	}
	c := &commit{
		committer: b, org: org, writer: newPacker(ctx, b.packs, org, prefix), manifest: newManifestWriter(b.manifests, b.packs.tempDir, b.rootBytes),
		dedup: &dedup{
			ctx: ctx, org: org, index: b.index, marked: marked, relocation: newRelocation(b.packs, org, marked),
			chunks: newChunkSet(b.packs.tempDir), borrowed: map[string][]string{},
		},
	}
	if len(marked.keys) > 0 {
		c.manifest.isMarked = marked.pack
	}
	return c, nil
}

// beginAfter prepares a commit that need not store what the parent holds. The
// caller closes it.
func (b *committer) beginAfter(ctx context.Context, org, parent string, confidential bool) (*commit, error) {
	for again := true; ; again = false {
		c, err := b.begin(ctx, org, confidential)
		if err != nil || parent == "" {
			return c, err
		}
		if err = c.inherit(ctx, parent); err == nil {
			return c, nil
		}
		err = errors.Join(fmt.Errorf("reading the parent version: %w", err), c.close())
		if !again || !errors.Is(err, blob.ErrNotFound) {
			return nil, err
		}
		// Another root of an equal tree may have come into the place of the one
		// that was being read.
	}
}

func (c *commit) close() error {
	return errors.Join(c.writer.close(), c.dedup.chunks.close(), c.manifest.close())
}

// inherit learns the pages and chunks of the parent version.
func (c *commit) inherit(ctx context.Context, parent string) error {
	m, err := c.manifests.open(ctx, c.org, parent)
	if err != nil {
		return err
	}
	if c.dedup.marked.keys[m.key] {
		// Nothing named it any more when it was condemned, so parts of it that had
		// been condemned before it was named may be gone by now. A parent that is
		// not condemned is whole but for what is: roots are condemned before packs
		// are deleted.
		return nil
	}
	c.parent = parent
	c.manifest.base = m
	for e, err := range m.entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.chunks {
			at := e.chunks[i].at
			holds, err := c.dedup.relocation.hold(ctx, &at)
			if err == nil && holds {
				err = c.dedup.chunks.add(e.chunks[i].hash, at)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// rescue stores those chunks of e anew that rest in condemned packs, as they
// are there.
func (c *commit) copyEndangeredChunks(ctx context.Context, e *entry) error {
	var x expander
	for i := range e.chunks {
		k := &e.chunks[i]
		if holds, err := c.dedup.relocation.hold(ctx, &k.at); err != nil {
			return err
		} else if holds {
			continue
		}
		at, ok, err := c.dedup.chunks.find(k.hash)
		if !ok && err == nil {
			at, err = c.copyChunk(ctx, &x, k)
		}
		if err != nil {
			return fmt.Errorf("storing a part of %q anew: %w", e.path, err)
		}
		k.at = at
	}
	return nil
}

func (c *commit) copyChunk(ctx context.Context, x *expander, k *chunk) (place, error) {
	b, err := fetch(ctx, c.packs, packKey(c.org, k.at.pack), int64(k.at.offset), int64(k.at.stored))
	if err != nil {
		return place{}, err
	}
	if err := x.chunk(make([]byte, k.raw), b, k); err != nil {
		return place{}, err
	}
	at, err := c.writer.add(segment{kind: chunkSegment, hash: k.hash, raw: k.raw, crc: k.at.crc}, b)
	if err != nil {
		return place{}, err
	}
	return at, c.dedup.chunks.add(k.hash, at)
}

// finish stores the new packs, then the root. If the same tree is stored
// already, the new packs are deleted.
func (c *commit) finish(ctx context.Context) (Ref, error) {
	digest, err := c.manifest.finish()
	if err != nil {
		return Ref{}, errors.Join(err, c.writer.withdraw(ctx))
	}
	root := &c.manifest.root
	ref := Ref{Digest: digest, Size: root.size, Files: root.files}
	at, err := c.locateRoot(ctx, digest)
	switch {
	case err != nil:
		return Ref{}, errors.Join(err, c.writer.withdraw(ctx))
	case at.valid:
		c.discard(ctx)
		ref.Epoch = c.dedup.marked.epoch
		if err := c.readBack(ctx, at.key, digest); err != nil {
			return Ref{}, err
		}
		return ref, c.gc.deleteStaleRoots(ctx, c.org, c.dedup.marked, at.refused)
	}
	err = c.checkBorrowed(ctx)
	if err == nil {
		err = c.manifest.settle(c.writer)
	}
	if err == nil {
		err = c.writer.publish(ctx)
	}
	if err == nil {
		err = c.revalidate(ctx, digest)
	}
	if err == nil && c.verifies {
		err = c.verify(ctx, &manifest{store: c.manifests, org: c.org, digest: digest, root: root})
	}
	if err != nil {
		return Ref{}, errors.Join(err, c.writer.withdraw(ctx))
	}
	ref.Epoch = c.dedup.marked.epoch
	return ref, c.publish(ctx, digest, at)
}

// rootPlace looks for an equal tree that is stored already. The parent need not
// be looked into: it was named, and is not condemned.
func (c *commit) locateRoot(ctx context.Context, digest string) (rootLocation, error) {
	key := manifestKey(c.org, digest)
	there, err := c.packs.exists(ctx, key)
	if c.gc.marks == nil || err != nil {
		return rootLocation{key: key, valid: there}, err
	}
	if c.dedup.marked.keys[key] || there && digest != c.parent {
		return c.gc.locateRoot(ctx, c.org, digest, c.dedup.marked)
	}
	return rootLocation{key: key, valid: there}, nil
}

// keepUp looks at the new tree again where a collection began since the commit
// did: a root that lacks something must not come to be.
func (c *commit) revalidate(ctx context.Context, digest string) error {
	now, err := c.gc.marked(ctx, c.org)
	if err != nil || now.epoch == c.dedup.marked.epoch {
		return err
	}
	c.dedup.marked = now
	m := &manifest{store: c.manifests, org: c.org, digest: digest, root: &c.manifest.root}
	err = c.gc.intact(ctx, m, now)
	if errors.Is(err, errMissingSegment) || isDamage(err) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// publish stores the root, after the packs that it names.
func (c *commit) publish(ctx context.Context, digest string, at rootLocation) error {
	object := c.manifest.root.encode(c.manifests.zstdOut)
	err := c.writer.store.Put(ctx, at.key, bytes.NewReader(object), int64(len(object)))
	switch {
	case err == nil:
		if err := c.rootBack(ctx, at.key, digest); err != nil {
			return err
		}
		c.writer.learn(c.index)
		return c.gc.deleteStaleRoots(ctx, c.org, c.dedup.marked, at.refused)
	case errors.Is(err, blob.ErrExists):
		return c.adoptExisting(ctx, digest)
	}
	err = fmt.Errorf("storing a manifest: %w", err)
	check, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// A store far away may have kept the manifest and lost the answer: the
	// packs go only when it is known to be missing.
	if exists, unclear := c.packs.exists(check, at.key); exists || unclear != nil {
		return errors.Join(err, unclear)
	}
	return errors.Join(err, c.writer.withdraw(ctx))
}

// yield gives way to an equal tree that was stored meanwhile.
func (c *commit) adoptExisting(ctx context.Context, digest string) error {
	c.discard(ctx)
	if c.gc.marks == nil {
		return nil
	}
	at, err := c.gc.locateRoot(ctx, c.org, digest, c.dedup.marked)
	if err != nil {
		return err
	}
	if !at.valid {
		return fmt.Errorf("%w: an equal tree was stored meanwhile, and is condemned", ErrStale)
	}
	return c.gc.deleteStaleRoots(ctx, c.org, c.dedup.marked, at.refused)
}

// discard withdraws packs that are not needed because an equal tree is stored.
// What cannot be deleted is garbage, and no reason to fail the commit.
func (c *commit) discard(ctx context.Context) { _ = c.writer.withdraw(ctx) }

// committer begins commits. It is safe for concurrent use.
type committer struct {
	packs     *packStore
	manifests *manifestStore
	gc        *collector
	index     Index
	rootBytes int
}
