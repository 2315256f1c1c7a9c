package checkout

import "log/slog"

// OpenBy is like Open, but the cache removes folders by calling remove.
func OpenBy(dir string, l Snapshots, limit int64, log *slog.Logger, remove func(dir string) error) (*Cache, error) {
	return open(dir, l, limit, log, remove)
}

// Locked reports whether the cache's lock is held.
func (c *Cache) Locked() bool {
	if !c.mu.TryLock() {
		return true
	}
	c.mu.Unlock()
	return false
}
