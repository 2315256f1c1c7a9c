package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Library gives trees of files; *content.Library is one.
type Library interface {
	Checkout(ctx context.Context, org, digest, dir string) error
}

// MaxLayers is how many folders a tree may consist of. A tree that would have
// more is not adopted, and so checked out when it is needed.
const MaxLayers = 100

// Cache is safe for concurrent use.
type Cache struct {
	dir     string
	library Library
	limit   int64 // bytes

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
	users int    // of Acquire, and entries that have it as their base
	used  int64
	size  int64 // bytes of its topmost folder
	ready chan struct{}
	err   error // set before ready closes
}

// Tree is a tree in use.
type Tree struct {
	c       *Cache
	e       *entry
	release func()
}

// Layers are its folders, the topmost first. Nobody writes to them.
func (t *Tree) Layers() []string {
	layers := make([]string, 0, t.e.depth)
	for e := t.e; e != nil; e = e.base {
		layers = append(layers, e.dir)
	}
	return layers
}

// Release gives the tree back. It may be called again.
func (t *Tree) Release() { t.release() }

// Open takes up what an earlier process left in dir, as far as it is whole and
// the machine was not started since. limit is in bytes; only this Cache may
// use dir.
func Open(dir string, l Library, limit int64) (*Cache, error) {
	c := &Cache{dir: dir, library: l, limit: limit, entries: map[string]*entry{}}
	if err := c.takeUp(); err != nil {
		return nil, fmt.Errorf("open the cache of files: %w", err)
	}
	return c, nil
}

// Acquire gives a tree, checking it out when it is not there. The empty digest
// is the empty tree.
func (c *Cache) Acquire(ctx context.Context, org, digest string) (*Tree, error) {
	e, first := c.use(nameOf(org, digest))
	if first {
		e.err = c.fetch(ctx, org, digest, e)
		close(e.ready)
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		c.release(e)
		return nil, ctx.Err()
	}
	if e.err != nil {
		c.release(e)
		return nil, e.err
	}
	return &Tree{c: c, e: e, release: sync.OnceFunc(func() { c.release(e) })}, nil
}

func nameOf(org, digest string) string { return org + "-" + digest }

func (c *Cache) use(name string) (e *entry, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entries[name]
	if e == nil {
		e, first = c.newEntry(name), true
		c.entries[name] = e
	}
	c.touch(e)
	e.users++
	return e, first
}

func (c *Cache) newEntry(name string) *entry {
	return &entry{name: name, dir: filepath.Join(c.dir, name), depth: 1, ready: make(chan struct{})}
}

func (c *Cache) touch(e *entry) {
	c.clock++
	e.used = c.clock
}

func (c *Cache) fetch(ctx context.Context, org, digest string, e *entry) (err error) {
	part := e.dir + partSuffix
	if err := os.Mkdir(part, 0o755); err != nil {
		return fmt.Errorf("make a folder to check out into: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Remove(part))
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
func (c *Cache) Adopt(org, digest string, base *Tree, dir string) (err error) {
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
	if e.err = c.keep(e, dir); e.err != nil {
		e.err = fmt.Errorf("take up a folder: %w", e.err)
	}
	close(e.ready)
	c.release(e)
	return e.err
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

// release gives an entry back and removes failed ones and what is too much.
func (c *Cache) release(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.users == 0 && e.failed() {
		c.remove(e)
	}
	for total := c.unused(); total > c.limit; total = c.unused() {
		c.remove(c.oldest())
	}
}

func (e *entry) failed() bool {
	select {
	case <-e.ready:
		return e.err != nil
	default:
		return false
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

// remove deletes a tree that nobody uses. A folder that cannot be removed is
// left for the next start.
func (c *Cache) remove(e *entry) {
	delete(c.entries, e.name)
	_ = os.Remove(e.dir + noteSuffix)
	_ = Remove(e.dir)
	if e.base != nil {
		e.base.users--
	}
}
