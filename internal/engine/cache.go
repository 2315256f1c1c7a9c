package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/stint-dev/stint/internal/content"
)

// cache keeps checked-out versions of volumes, read-only and shared by all runs
// that mount them. What nobody uses is removed, least recently used first, when
// there is more than the limit.
type cache struct {
	dir     string
	library *content.Library
	limit   int64 // bytes

	mu      sync.Mutex // guards entries, their users and used, and clock
	entries map[string]*checkout
	clock   int64
}

// checkout is one version on disk, or on its way there.
type checkout struct {
	dir   string
	users int
	used  int64
	size  int64
	ready chan struct{}
	err   error // set before ready closes
}

func newCache(dir string, l *content.Library, limit int64) (*cache, error) {
	if err := removeTree(dir); err != nil {
		return nil, fmt.Errorf("clear volume cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make volume cache: %w", err)
	}
	return &cache{dir: dir, library: l, limit: limit, entries: map[string]*checkout{}}, nil
}

// acquire gives the folder of a version, checking it out when it is not there.
// Nobody writes to it. release gives it back.
func (c *cache) acquire(ctx context.Context, org, digest string) (dir string, release func(), err error) {
	key := org + "/" + digest
	e, first := c.use(key, filepath.Join(c.dir, org+"-"+digest))
	if first {
		e.err = c.fetch(ctx, org, digest, e)
		close(e.ready)
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		c.release(key, e)
		return "", nil, ctx.Err()
	}
	if e.err != nil {
		c.release(key, e)
		return "", nil, e.err
	}
	return e.dir, sync.OnceFunc(func() { c.release(key, e) }), nil
}

func (c *cache) use(key, dir string) (e *checkout, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entries[key]
	if e == nil {
		e, first = &checkout{dir: dir, ready: make(chan struct{})}, true
		c.entries[key] = e
	}
	c.clock++
	e.users, e.used = e.users+1, c.clock
	return e, first
}

func (c *cache) fetch(ctx context.Context, org, digest string, e *checkout) error {
	if err := os.Mkdir(e.dir, 0o755); err != nil {
		return err
	}
	if digest == "" {
		return nil
	}
	if err := c.library.Checkout(ctx, org, digest, e.dir); err != nil {
		return err
	}
	size, err := diskUse(e.dir)
	e.size = size
	return err
}

func diskUse(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// release gives a version back and removes what is too much, and failed
// checkouts.
func (c *cache) release(key string, e *checkout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if e.users == 0 && failed(e) {
		c.remove(key, e)
	}
	for total := c.unused(); total > c.limit; {
		oldKey, old := c.oldest()
		total -= old.size
		c.remove(oldKey, old)
	}
}

func failed(e *checkout) bool {
	select {
	case <-e.ready:
		return e.err != nil
	default:
		return false
	}
}

func (c *cache) unused() (total int64) {
	for _, e := range c.entries {
		if e.users == 0 {
			total += e.size
		}
	}
	return total
}

func (c *cache) oldest() (key string, e *checkout) {
	for k, candidate := range c.entries {
		if candidate.users == 0 && (e == nil || candidate.used < e.used) {
			key, e = k, candidate
		}
	}
	return key, e
}

// remove deletes a version that nobody uses. A folder that cannot be removed
// is left for the next start.
func (c *cache) remove(key string, e *checkout) {
	delete(c.entries, key)
	_ = removeTree(e.dir)
}
