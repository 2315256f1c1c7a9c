package checkout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Snapshots gives trees of files; *files.Library is one.
type Snapshots interface {
	Checkout(ctx context.Context, org, digest, dir string) error
}

// MaxLayers is how many folders a tree may consist of. A tree that would have
// more is not adopted, and so checked out when it is needed.
const MaxLayers = 100

// Cache is safe for concurrent use.
type Cache struct {
	dir     string
	library Snapshots
	limit   int64 // bytes
	log     *slog.Logger
	erase   func(dir string) error

	fetches sync.WaitGroup

	mu      sync.Mutex // guards entries, their users and used, and clock
	entries map[string]*entry
	clock   int64
}

// entry is one tree on disk, or on its way there.
type entry struct {
	name  string
	dir   string // its topmost folder
	base  *entry // what lies below that; nil for none
	depth int    // folders of the stack
	users int    // of Acquire, its fetch, and entries that have it as their base
	used  int64
	size  int64 // bytes of its topmost folder
	ready chan struct{}
	err   error // set before ready closes; the entry is out of the cache then

	abandon context.CancelCauseFunc // ends its fetch; nil when there is none
}

var errUnwanted = errors.New("nobody wanted it any more")

// Checkout is a tree in use.
type Checkout struct {
	c       *Cache
	e       *entry
	release func()
}

// Layers are its folders, the topmost first. Nobody writes to them.
func (t *Checkout) Layers() []string {
	layers := make([]string, 0, t.e.depth)
	for e := t.e; e != nil; e = e.base {
		layers = append(layers, e.dir)
	}
	return layers
}

// Release gives the tree back. It may be called again.
func (t *Checkout) Release() { t.release() }

// Open takes up what an earlier process left in dir, as far as it is whole and
// the machine was not started since. The rest is removed; what cannot be is told
// to the log and in nobody's way, and the next Open tries again. limit is in
// bytes; only this Cache may use dir.
func Open(dir string, l Snapshots, limit int64, log *slog.Logger) (*Cache, error) {
	return open(dir, l, limit, log, sandbox.Remove)
}

func open(dir string, l Snapshots, limit int64, log *slog.Logger, erase func(string) error) (*Cache, error) {
	c := &Cache{dir: dir, library: l, limit: limit, log: log, entries: map[string]*entry{}, erase: erase}
	if err := c.takeUp(); err != nil {
		return nil, fmt.Errorf("open the cache of files: %w", err)
	}
	return c, nil
}

// Close waits for the fetches that are still to be ended. Call it when all trees
// are given back.
func (c *Cache) Close() { c.fetches.Wait() }

// Acquire gives a tree, checking it out when it is not there. The empty digest
// is the empty tree. Who wants the same tree meanwhile waits for the same
// checkout, which goes on for as long as anybody does.
func (c *Cache) Acquire(ctx context.Context, org, digest string) (*Checkout, error) {
	for {
		e := c.use(ctx, org, digest)
		select {
		case <-e.ready:
		case <-ctx.Done():
			c.release(e)
			return nil, ctx.Err()
		}
		if e.err == nil {
			return &Checkout{c: c, e: e, release: sync.OnceFunc(func() { c.release(e) })}, nil
		}
		c.release(e)
		if !errors.Is(e.err, errUnwanted) {
			return nil, e.err
		}
		// It came while the last one gave up, and is the first now.
	}
}

func nameOf(org, digest string) string { return org + "-" + digest }

// use finds the entry of a tree, or makes one and begins to fetch it.
func (c *Cache) use(ctx context.Context, org, digest string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := nameOf(org, digest)
	e := c.entries[name]
	if e == nil {
		e = c.newEntry(name)
		c.entries[name] = e
		e.users++ // the fetch itself
		ctx, e.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
		c.fetches.Go(func() { c.settle(e, c.fetch(ctx, org, digest, e)) })
	}
	c.touch(e)
	e.users++
	return e
}

func (c *Cache) newEntry(name string) *entry {
	return &entry{name: name, dir: filepath.Join(c.dir, name), depth: 1, ready: make(chan struct{})}
}

func (c *Cache) touch(e *entry) {
	c.clock++
	e.used = c.clock
}

func (c *Cache) fetch(ctx context.Context, org, digest string, e *entry) (err error) {
	part, err := os.MkdirTemp(c.dir, e.name+"-*"+partSuffix)
	if err != nil {
		return fmt.Errorf("make a folder to check out into: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, context.Cause(ctx), sandbox.Remove(part))
		}
	}()
	if digest != "" {
		if err := c.library.Checkout(ctx, org, digest, part); err != nil {
			return err
		}
	}
	if e.size, err = diskUse(part); err != nil {
		return fmt.Errorf("measure a checkout: %w", err)
	}
	return c.keep(e, part)
}

// Adopt makes dir, a folder on the cache's file system that nobody uses any
// more, the tree of the digest: as it is, or as what an overlay over base has
// changed. The folder is moved, or stays where it is when the tree lies ready
// already or would have too many layers. The base is still the caller's.
func (c *Cache) Adopt(org, digest string, base *Checkout, dir string) (err error) {
	e := c.newEntry(nameOf(org, digest))
	if e.size, err = diskUse(dir); err != nil {
		return fmt.Errorf("measure a folder: %w", err)
	}
	if base != nil {
		e.base, e.depth = base.e, base.e.depth+1
	}
	if e.depth > MaxLayers || !c.claim(e) {
		return nil
	}
	if err = c.keep(e, dir); err != nil {
		err = fmt.Errorf("take up a folder: %w", err)
	}
	c.settle(e, err)
	return err
}

// claim puts a new entry in its place, unless there is one.
func (c *Cache) claim(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[e.name] != nil {
		return false
	}
	c.entries[e.name] = e
	c.touch(e)
	e.users++
	if e.base != nil {
		e.base.users++
	}
	return true
}

// settle tells those who wait for a new entry what came of it, and gives it back.
func (c *Cache) settle(e *entry, err error) {
	c.mu.Lock()
	if e.abandon != nil {
		e.abandon(nil)
		e.abandon = nil
	}
	if e.err = err; err != nil {
		c.forget(e)
	}
	close(e.ready)
	gone := c.giveBack(e) // at once: for who waited and is done with it sooner, it would still be in use
	c.mu.Unlock()
	c.eraseAll(gone)
}

// release gives an entry back and removes what is too much. That may be large,
// and every run needs the lock.
func (c *Cache) release(e *entry) {
	c.mu.Lock()
	gone := c.giveBack(e)
	c.mu.Unlock()
	c.eraseAll(gone)
}

// giveBack ends a fetch that nobody waits for, and returns the folders of what
// is too much. c.mu is held.
func (c *Cache) giveBack(e *entry) (gone []string) {
	e.users--
	if e.users == 1 && e.abandon != nil {
		e.abandon(errUnwanted)
	}
	for total := c.unused(); total > c.limit; total = c.unused() {
		gone = append(gone, c.remove(c.oldest()))
	}
	return gone
}

func (c *Cache) eraseAll(dirs []string) {
	for _, dir := range dirs {
		if err := c.erase(dir); err != nil {
			c.log.Warn("a tree that nobody uses could not be removed; the next start tries again", "folder", dir, "error", err)
		}
	}
}

func (c *Cache) unused() (total int64) {
	for _, e := range c.entries {
		if e.users == 0 {
			total += e.size
		}
	}
	return total
}

func (c *Cache) oldest() (oldest *entry) {
	for _, e := range c.entries {
		if e.users == 0 && (oldest == nil || e.used < oldest.used) {
			oldest = e
		}
	}
	return oldest
}

// remove takes a tree that nobody uses out of the cache, and its folder out of
// the way of another; it returns where that lies to be deleted.
func (c *Cache) remove(e *entry) (gone string) {
	c.forget(e)
	gone, _ = putAside(e.dir) // without its note the next start removes it
	return gone
}

func (c *Cache) forget(e *entry) {
	delete(c.entries, e.name)
	_ = os.Remove(e.dir + noteSuffix)
	if e.base != nil {
		e.base.users--
	}
}
