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
}

// begin prepares a commit that need not store what the parent holds. The
// caller closes it.
func (l *Library) begin(ctx context.Context, org, parent string) (*commit, error) {
	if err := checkOrg(org); err != nil {
		return nil, err
	}
	c := &commit{
		lib: l, org: org, known: newKnown(l.tempDir),
		packs: newPacker(ctx, l.blobs, org, func() string { return l.ids.New("") }),
	}
	c.manifest = newManifestWriter(l)
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
	c.manifest.base = m
	for e, err := range m.entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.chunks {
			if err := c.known.add(e.chunks[i].hash, e.chunks[i].at); err != nil {
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
	key := manifestKey(c.org, ref.Digest)
	switch exists, err := c.lib.exists(ctx, key); {
	case err != nil:
		return Ref{}, errors.Join(err, c.packs.withdraw(ctx))
	case exists:
		c.discard(ctx)
		return ref, nil
	}
	err = c.manifest.settle(c.packs)
	if err == nil {
		err = c.packs.publish(ctx)
	}
	if err != nil {
		return Ref{}, errors.Join(err, c.packs.withdraw(ctx))
	}
	return ref, c.publish(ctx, key)
}

// publish stores the root, after the packs that it names.
func (c *commit) publish(ctx context.Context, key string) error {
	object := c.manifest.root.encode(c.lib.zstdOut)
	err := c.lib.blobs.Put(ctx, key, bytes.NewReader(object), int64(len(object)))
	switch {
	case err == nil:
		c.lib.learn(ctx, c.org, c.packs.mine)
		return nil
	case errors.Is(err, blob.ErrExists):
		c.discard(ctx)
		return nil
	}
	err = fmt.Errorf("storing a manifest: %w", err)
	check, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// A store far away may have kept the manifest and lost the answer: the
	// packs go only when it is known to be missing.
	if exists, unclear := c.lib.exists(check, key); exists || unclear != nil {
		return errors.Join(err, unclear)
	}
	return errors.Join(err, c.packs.withdraw(ctx))
}

// discard withdraws packs that are not needed because an equal tree is stored.
// What cannot be deleted is garbage, and no reason to fail the commit.
func (c *commit) discard(ctx context.Context) { _ = c.packs.withdraw(ctx) }
