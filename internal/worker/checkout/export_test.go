package checkout

import "log/slog"

// OpenBy is Open with another that deletes folders.
func OpenBy(dir string, l Snapshots, limit int64, log *slog.Logger, remove func(dir string) error) (*Cache, error) {
	return open(dir, l, limit, log, remove)
}

// Locked reports whether somebody holds the cache's lock.
func (c *Cache) Locked() bool {
	if !c.mu.TryLock() {
		return true
	}
	c.mu.Unlock()
	return false
}
