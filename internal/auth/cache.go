package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	cacheFor  = 3 * time.Second
	cacheSize = 8192
)

type tokenHash = [sha256.Size]byte

// cache remembers the callers of good tokens for a few seconds, so that a busy
// client costs one look-up in that time. Bad tokens are never remembered: they
// would let strangers fill it.
type cache struct {
	mu      sync.RWMutex // guards the rest
	callers map[tokenHash]remembered
	hashes  map[string]tokenHash // by token identifier
	drops   uint64               // counts drop, so that a look-up which raced one is not stored
}

type remembered struct {
	caller Caller
	until  time.Time
}

func (c *cache) get(h tokenHash, now time.Time) (Caller, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.callers[h]
	return e.caller, ok && now.Before(e.until)
}

func (c *cache) byID(tokenID string, now time.Time) (Caller, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	h, known := c.hashes[tokenID]
	e := c.callers[h]
	return e.caller, known && now.Before(e.until)
}

func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.drops
}

// put remembers a caller unless a token was dropped since generation was read.
func (c *cache) put(h tokenHash, caller Caller, now time.Time, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != generation {
		return
	}
	if c.callers == nil || len(c.callers) >= cacheSize {
		c.callers, c.hashes = map[tokenHash]remembered{}, map[string]tokenHash{}
	}
	c.callers[h] = remembered{caller, now.Add(cacheFor)}
	c.hashes[caller.TokenID] = h
}

func (c *cache) drop(tokenID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if h, ok := c.hashes[tokenID]; ok {
		delete(c.callers, h)
		delete(c.hashes, tokenID)
	}
}
