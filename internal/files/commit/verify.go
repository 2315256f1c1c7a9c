package commit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/manifest"
	"github.com/stint-dev/stint/internal/files/pack"
	"golang.org/x/sync/errgroup"
)

// ErrReadBack means that stored content could not be read back unchanged.
var ErrReadBack = errors.New("what was stored does not read back")

// verify reads the chunks of all files of a tree, expands them, and checks their
// hashes. The chunks of older packs are only read, not expanded, if the store of
// these packs detects damage itself.
func (c *Commit) verify(ctx context.Context, m *manifest.Manifest) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), 4)
	chunks := make(chan *format.Chunk, 64)
	group.Go(func() error {
		defer close(chunks)
		return distinctChunks(ctx, m, chunks)
	})
	for range workers {
		group.Go(func() error {
			r := &pack.ChunkReader{Reader: pack.Reader{Store: c.Packs, Org: c.Org}}
			return errors.Join(c.readChunks(ctx, r, chunks), r.Close())
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%w: %w", ErrReadBack, err)
	}
	return nil
}

// distinctChunks sends the chunks of a tree to the channel. It sends a chunk only
// once if it is repeated directly.
func distinctChunks(ctx context.Context, m *manifest.Manifest, to chan<- *format.Chunk) error {
	var last format.Place
	for e, err := range m.Entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.Chunks {
			k := &e.Chunks[i]
			if k.Place == last {
				continue
			}
			last = k.Place
			select {
			case to <- k:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func (c *Commit) readChunks(ctx context.Context, r *pack.ChunkReader, chunks <-chan *format.Chunk) error {
	for k := range chunks {
		read := r.Chunk
		if c.isAuthenticated(k.Place.Pack) {
			read = r.Segment
		}
		if _, err := read(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// isAuthenticated reports whether a pack is older than this commit and is in the
// sealed store. Reads from this store detect damage.
func (c *Commit) isAuthenticated(packID string) bool {
	return c.Packs.Sealed != nil && strings.HasPrefix(packID, pack.SealedPrefix) && !slices.Contains(c.Writer.Uploaded, packID)
}

// verifyRoot reads the new root. If the root is damaged, verifyRoot deletes it and
// the new packs.
func (c *Commit) verifyRoot(ctx context.Context, key, digest string) error {
	if !c.Verifies {
		return nil
	}
	m := &manifest.Manifest{Store: c.Manifests, Org: c.Org, Digest: digest}
	err := m.ReadRootAt(ctx, key)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrReadBack, err)
	if pack.IsDamage(err) {
		err = errors.Join(err, c.Packs.Delete(ctx, key), c.Writer.Withdraw(ctx))
	}
	return err
}

// verifyStored verifies an equal tree that was stored before, unless it is the parent.
func (c *Commit) verifyStored(ctx context.Context, key, digest string) error {
	if !c.Verifies || digest == c.parent {
		return nil
	}
	m := &manifest.Manifest{Store: c.Manifests, Org: c.Org, Digest: digest}
	if err := m.ReadRootAt(ctx, key); err != nil {
		return fmt.Errorf("%w: %w", ErrReadBack, err)
	}
	return c.verify(ctx, m)
}
