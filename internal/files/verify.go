package files

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// errUnread says that what was stored does not come back as it was.
var errReadBack = errors.New("what was stored does not read back")

// verify reads every file of a tree back, each chunk once. What is new is
// expanded and held against its hash; so is what was there before, unless it
// rests where reading alone finds damage.
func (c *commit) verify(ctx context.Context, m *manifest) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), 4)
	chunks := make(chan *chunk, 64)
	group.Go(func() error {
		defer close(chunks)
		return distinctChunks(ctx, m, chunks)
	})
	for range workers {
		group.Go(func() error {
			f := &packReader{store: c.packs, org: c.org}
			return errors.Join(c.readChunks(ctx, f, chunks), f.close())
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%w: %w", errReadBack, err)
	}
	return nil
}

// distinctChunks sends the chunks of a tree, equal ones that follow each other
// once.
func distinctChunks(ctx context.Context, m *manifest, to chan<- *chunk) error {
	var last place
	for e, err := range m.entries(ctx) {
		if err != nil {
			return err
		}
		for i := range e.chunks {
			k := &e.chunks[i]
			if k.at == last {
				continue
			}
			last = k.at
			select {
			case to <- k:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func (c *commit) readChunks(ctx context.Context, f *packReader, chunks <-chan *chunk) error {
	var expand expander
	var stored, plain []byte
	for k := range chunks {
		stored, plain = resized(stored, int(k.at.stored)), resized(plain, int(k.raw))
		if err := f.read(ctx, k.at.pack, int64(k.at.offset), stored); err != nil {
			return err
		}
		if c.isAuthenticated(k.at.pack) {
			continue
		}
		if err := expand.chunk(plain, stored, k); err != nil {
			return err
		}
	}
	return nil
}

// tells reports whether a pack of another commit tells of damage when it is
// read.
func (c *commit) isAuthenticated(pack string) bool {
	return c.packs.sealed != nil && strings.HasPrefix(pack, sealedPrefix) && !slices.Contains(c.writer.mine, pack)
}

// rootBack reads the new root back, and deletes one that is not what it should
// be.
func (c *commit) rootBack(ctx context.Context, key, digest string) error {
	if !c.verifies {
		return nil
	}
	m := &manifest{store: c.manifests, org: c.org, digest: digest}
	err := m.openAt(ctx, key)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", errReadBack, err)
	if isDamage(err) {
		err = errors.Join(err, c.packs.Delete(ctx, key), c.writer.withdraw(ctx))
	}
	return err
}

// readBack verifies an equal tree that was stored before, unless it is the one
// that the commit began with.
func (c *commit) readBack(ctx context.Context, key, digest string) error {
	if !c.verifies || digest == c.parent {
		return nil
	}
	m := &manifest{store: c.manifests, org: c.org, digest: digest}
	if err := m.openAt(ctx, key); err != nil {
		return fmt.Errorf("%w: %w", errReadBack, err)
	}
	return c.verify(ctx, m)
}
