package cache

// RemoveBy has another delete folders; call it before the cache is used.
func (c *Cache) RemoveBy(remove func(dir string) error) { c.erase = remove }

// Locked reports whether somebody holds the cache's lock.
func (c *Cache) Locked() bool {
	if !c.mu.TryLock() {
		return true
	}
	c.mu.Unlock()
	return false
}
