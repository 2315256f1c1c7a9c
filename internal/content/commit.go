package content

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
	lib      *Library
	org      string
	known    *known
	packs    *packer
	manifest *manifestWriter
	claim    *claim
	parent   string // the digest that is inherited from, or ""
}

// begin prepares a commit that need not store what the parent holds. The
// caller closes it.
func (l *Library) begin(ctx context.Context, org, parent string) (*commit, error) {
	if err := checkOrg(org); err != nil {
		return nil, err
	}
	c := &commit{
		lib: l, org: org, known: newKnown(l.tempDir),
		packs: newPacker(ctx, l, org),
	}
	c.manifest = newManifestWriter(l)
	var err error
	if c.claim, err = l.claim(ctx, org); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if parent != "" {
		if err := c.inherit(ctx, parent); err != nil {
			return nil, errors.Join(fmt.Errorf("reading the parent version: %w", err), c.close())
		}
	}
	return c, nil
}

func (c *commit) close() error {
	return errors.Join(c.packs.close(), c.known.close(), c.manifest.close())
}

// inherit learns the pages and chunks of the parent version.
func (c *commit) inherit(ctx context.Context, parent string) error {
	m, err := c.lib.manifest(ctx, c.org, parent)
	if err != nil {
		return err
	}
	if _, dead := c.claim.doomed[m.key]; dead {
		// Nothing named it any more when it was condemned, so parts of it that had
		// been condemned before it was named may be gone by now. A parent that is
		// not condemned is whole but for what is doomed: roots are condemned before
		// packs are deleted.
		return nil
	}
	c.parent = parent
	c.manifest.base, c.manifest.claim = m, c.claim
	doubt := newDoubtful(c.lib, c.org, c.claim)
	for e, err := range m.entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.chunks {
			holds, err := doubt.holds(ctx, &e.chunks[i].at)
			if err == nil && holds {
				err = c.known.add(e.chunks[i].hash, e.chunks[i].at)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// seal stores what is new: packs, then the root. When the same tree is
// stored already, nothing new stays.
func (c *commit) seal(ctx context.Context) (Ref, error) {
	ref, err := c.manifest.finish()
	if err != nil {
		return Ref{}, errors.Join(err, c.packs.withdraw(ctx))
	}
	at, err := c.rootPlace(ctx, ref.Digest)
	switch {
	case err != nil:
		return Ref{}, errors.Join(err, c.packs.withdraw(ctx))
	case at.sound:
		c.discard(ctx)
		ref.Epoch = c.claim.epoch
		return ref, c.lib.retire(ctx, c.org, c.claim, at.refused)
	}
	err = c.manifest.settle(c.packs)
	if err == nil {
		err = c.packs.publish(ctx)
	}
	if err == nil {
		err = c.keepUp(ctx, ref.Digest)
	}
	if err != nil {
		return Ref{}, errors.Join(err, c.packs.withdraw(ctx))
	}
	ref.Epoch = c.claim.epoch
	return ref, c.publish(ctx, ref.Digest, at)
}

// rootPlace looks for an equal tree that is stored already. What was ever named
// is whole unless it is doomed, so the parent need not be looked into.
func (c *commit) rootPlace(ctx context.Context, digest string) (rootPlace, error) {
	key := manifestKey(c.org, digest)
	if c.claim.doomed[key] {
		return c.lib.rootPlace(ctx, c.org, digest, c.claim)
	}
	there, err := c.lib.exists(ctx, key)
	if there && digest != c.parent {
		return c.lib.rootPlace(ctx, c.org, digest, c.claim)
	}
	return rootPlace{key: key, sound: there}, err
}

// keepUp looks at the new tree again where a collection began since the commit
// did: a root that lacks something must not come to be.
func (c *commit) keepUp(ctx context.Context, digest string) error {
	now, err := c.lib.claim(ctx, c.org)
	if err != nil || now.epoch == c.claim.epoch {
		return err
	}
	c.claim = now
	m := &manifest{lib: c.lib, org: c.org, digest: digest, root: &c.manifest.root}
	err = m.intact(ctx, now)
	if errors.Is(err, errLacking) || isDamage(err) {
		return ErrOvertaken
	}
	return err
}

// publish stores the root, after the packs that it names.
func (c *commit) publish(ctx context.Context, digest string, at rootPlace) error {
	object := c.manifest.root.encode(c.lib.zstdOut)
	err := c.lib.blobs.Put(ctx, at.key, bytes.NewReader(object), int64(len(object)))
	switch {
	case err == nil:
		return c.lib.retire(ctx, c.org, c.claim, at.refused)
	case errors.Is(err, blob.ErrExists):
		return c.yield(ctx, digest)
	}
	err = fmt.Errorf("storing a manifest: %w", err)
	check, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// A store far away may have kept the manifest and lost the answer: the
	// packs go only when it is known to be missing.
	if exists, unclear := c.lib.exists(check, at.key); exists || unclear != nil {
		return errors.Join(err, unclear)
	}
	return errors.Join(err, c.packs.withdraw(ctx))
}

// yield gives way to an equal tree that was stored meanwhile.
func (c *commit) yield(ctx context.Context, digest string) error {
	c.discard(ctx)
	at, err := c.lib.rootPlace(ctx, c.org, digest, c.claim)
	if err != nil {
		return err
	}
	if !at.sound {
		return ErrOvertaken // it was stored by one who was overtaken
	}
	return c.lib.retire(ctx, c.org, c.claim, at.refused)
}

// discard withdraws packs that are not needed because an equal tree is stored.
// What cannot be deleted is garbage, and no reason to fail the commit.
func (c *commit) discard(ctx context.Context) { _ = c.packs.withdraw(ctx) }
