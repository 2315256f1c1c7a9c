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

// cache contains the callers of valid tokens for cacheFor, so that a busy client causes
// one lookup in that time. Invalid tokens are not cached, because unauthenticated
// clients could fill the cache with them.
type cache struct {
	mu          sync.RWMutex // guards the rest
	callers     map[tokenHash]cachedCaller
	hashes      map[string]tokenHash // by token identifier
	revocations uint64               // number of calls of drop
}

type cachedCaller struct {
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
	h, ok := c.hashes[tokenID]
	e := c.callers[h]
	return e.caller, ok && now.Before(e.until)
}

// generation returns a number for put. The caller reads it before it looks up the token.
func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revocations
}

// put adds a caller. It does nothing if a token was revoked after generation was read,
// because the revoked token may be the one that the lookup returned.
func (c *cache) put(h tokenHash, caller Caller, now time.Time, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revocations != generation {
		return
	}
	if c.callers == nil || len(c.callers) >= cacheSize {
		c.callers, c.hashes = map[tokenHash]cachedCaller{}, map[string]tokenHash{}
	}
	c.callers[h] = cachedCaller{caller, now.Add(cacheFor)}
	c.hashes[caller.TokenID] = h
}

// drop removes the caller of a revoked token.
func (c *cache) drop(tokenID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revocations++
	if h, ok := c.hashes[tokenID]; ok {
		delete(c.callers, h)
		delete(c.hashes, tokenID)
	}
}
