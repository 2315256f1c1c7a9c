// Package checkout caches checkouts of snapshots on a worker's disk.
//
// A checkout is read-only and shared by all runs that mount it. It is a list of
// folders, topmost first, which are the lower layers of an overlay. A fetched
// snapshot is one folder. The workspace of a finished run can become a checkout, too:
// the upper layer of the run's overlay, on top of the checkout that the run began
// with. The cost of continuing a session therefore does not depend on the size of
// the workspace.
//
// If the unused checkouts exceed the limit, the least recently used ones are removed
// until the others are within the limit. Checkouts survive a restart of the process, but
// not of the host, because files are not synced to disk.
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

// Snapshots writes the files of a snapshot into the folder dir. *files.Library
// implements it.
type Snapshots interface {
	Checkout(ctx context.Context, org, digest, dir string) error
}

// MaxLayers is the maximum number of folders of a checkout. Adopt ignores a folder
// if the checkout would have more; its snapshot is fetched when it is needed.
const MaxLayers = 100

// Cache caches checkouts. It is safe for concurrent use.
type Cache struct {
	dir     string
	library Snapshots
	limit   int64 // bytes
	log     *slog.Logger
	erase   func(dir string) error

	fetches sync.WaitGroup

	mu      sync.Mutex // guards entries, clock, and the users, lastUse, and cancel of entries
	entries map[string]*cached
	clock   int64 // number of uses so far
}

// cached is a checkout that is on disk or being fetched.
type cached struct {
	name    string
	dir     string        // the topmost folder
	base    *cached       // the checkout with the folders below; nil if there are none
	depth   int           // number of folders
	users   int           // number of callers of Acquire, fetches, adoptions, and checkouts on top of this one
	lastUse int64         // value of Cache.clock at the last use
	size    int64         // bytes of the topmost folder
	ready   chan struct{} // closed after the fetch
	err     error         // error of the fetch; set before ready is closed

	cancel context.CancelCauseFunc // cancels the fetch; nil after the fetch
}

var errAbandoned = errors.New("all callers have stopped waiting")

// Checkout is a snapshot on disk. It is not removed before Release.
type Checkout struct {
	e       *cached
	release func()
}

// Layers returns the folders, topmost first. The files in them must not be changed.
func (t *Checkout) Layers() []string {
	layers := make([]string, 0, t.e.depth)
	for e := t.e; e != nil; e = e.base {
		layers = append(layers, e.dir)
	}
	return layers
}

// Release allows the checkout to be removed. It is idempotent.
func (t *Checkout) Release() { t.release() }

// Open returns a cache with the complete checkouts that an earlier process left
// in dir since the start of the host. It removes other files; a failure is logged
// and the next Open tries again. limit is in bytes. Only this Cache may use dir.
func Open(dir string, l Snapshots, limit int64, log *slog.Logger) (*Cache, error) {
	return open(dir, l, limit, log, sandbox.Remove)
}

func open(dir string, l Snapshots, limit int64, log *slog.Logger, erase func(string) error) (*Cache, error) {
	c := &Cache{dir: dir, library: l, limit: limit, log: log, entries: map[string]*cached{}, erase: erase}
	if err := c.restore(); err != nil {
		return nil, fmt.Errorf("open the cache of checkouts: %w", err)
	}
	return c, nil
}

// Close waits until abandoned fetches have ended. All checkouts must be released
// before.
func (c *Cache) Close() { c.fetches.Wait() }

// Acquire returns the checkout of a snapshot, which the caller must release. If the
// snapshot is not cached, Acquire fetches it. The empty digest is the empty snapshot.
// Concurrent callers share one fetch, which is cancelled when all of them have
// stopped waiting.
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
			return &Checkout{e: e, release: sync.OnceFunc(func() { c.release(e) })}, nil
		}
		c.release(e)
		if !errors.Is(e.err, errAbandoned) {
			return nil, e.err
		}
		// The fetch was already being cancelled when this call joined it. Start another
		// fetch.
	}
}

func nameOf(org, digest string) string { return org + "-" + digest }

// use returns the entry of a snapshot with one more user. If the snapshot has
// no entry, use adds one and starts to fetch the snapshot.
func (c *Cache) use(ctx context.Context, org, digest string) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := nameOf(org, digest)
	e := c.entries[name]
	if e == nil {
		e = c.newEntry(name)
		c.entries[name] = e
		e.users++ // the fetch itself
		ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		c.fetches.Go(func() { c.settle(e, c.fetch(ctx, org, digest, e)) })
	}
	c.touch(e)
	e.users++
	return e
}

func (c *Cache) newEntry(name string) *cached {
	return &cached{name: name, dir: filepath.Join(c.dir, name), depth: 1, ready: make(chan struct{})}
}

func (c *Cache) touch(e *cached) {
	c.clock++
	e.lastUse = c.clock
}

func (c *Cache) fetch(ctx context.Context, org, digest string, e *cached) (err error) {
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
	return c.publish(e, part)
}

// Adopt adds dir as the checkout of a snapshot. If base is nil, dir contains the
// whole snapshot. Otherwise, dir is the upper layer of an overlay over base. dir must
// be unused and on the cache's file system. Adopt moves it, unless the snapshot is
// already cached or its checkout would have more than MaxLayers folders. The caller
// still has to release base.
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
	if err = c.publish(e, dir); err != nil {
		err = fmt.Errorf("adopt a folder: %w", err)
	}
	c.settle(e, err)
	return err
}

// claim adds a new entry with one user. It returns false if the snapshot already has
// an entry.
func (c *Cache) claim(e *cached) bool {
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

// settle sets the result of a fetch or adoption, which then no longer counts as a user of
// the entry.
func (c *Cache) settle(e *cached, err error) {
	c.mu.Lock()
	if e.cancel != nil {
		e.cancel(nil)
		e.cancel = nil
	}
	if e.err = err; err != nil {
		c.forget(e)
	}
	close(e.ready)
	removed := c.unref(e) // under the same lock: otherwise a waiter may release e while the fetch still counts as a user
	c.mu.Unlock()
	c.eraseDirs(removed)
}

// release removes a user of an entry, and removes unused checkouts above the limit.
// Folders are removed without the lock, because they may be large.
func (c *Cache) release(e *cached) {
	c.mu.Lock()
	removed := c.unref(e)
	c.mu.Unlock()
	c.eraseDirs(removed)
}

// unref removes a user of an entry. It cancels a fetch that no caller waits for, and
// returns the folders to remove because of the limit. c.mu is held.
func (c *Cache) unref(e *cached) (removed []string) {
	e.users--
	if e.users == 1 && e.cancel != nil {
		e.cancel(errAbandoned)
	}
	for total := c.unused(); total > c.limit; total = c.unused() {
		removed = append(removed, c.remove(c.oldest()))
	}
	return removed
}

func (c *Cache) eraseDirs(dirs []string) {
	for _, dir := range dirs {
		if err := c.erase(dir); err != nil {
			c.log.Warn("an unused checkout could not be removed; the next start tries again", "folder", dir, "error", err)
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

func (c *Cache) oldest() (oldest *cached) {
	for _, e := range c.entries {
		if e.users == 0 && (oldest == nil || e.lastUse < oldest.lastUse) {
			oldest = e
		}
	}
	return oldest
}

// remove removes an unused entry and renames its folder. It returns the folder's
// new path. c.mu is held.
func (c *Cache) remove(e *cached) (removed string) {
	c.forget(e)
	removed, _ = putAside(e.dir) // after an error, the next start removes the folder, because it has no note
	return removed
}

func (c *Cache) forget(e *cached) {
	delete(c.entries, e.name)
	_ = os.Remove(e.dir + noteSuffix)
	if e.base != nil {
		e.base.users--
	}
}
