package checkout

import "log/slog"

// OpenBy is Open with another function to remove folders.
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
