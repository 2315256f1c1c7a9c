package lru

import (
	"container/list"
	"sync"
)

// Cache keeps the most recently used values, up to a maximum number. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	limit int

	mu    sync.Mutex // guards the fields below
	order list.List  // elements are *kept[K, V]; the most recently used is first
	byKey map[K]*list.Element
}

type kept[K comparable, V any] struct {
	key   K
	value V
}

// New returns a cache of at most limit values.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, byKey: map[K]*list.Element{}}
}

// Get returns the value of key and marks it as used. ok is false if key has no value.
func (r *Cache[K, V]) Get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if !ok {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*kept[K, V]).value, true
}

// Put sets the value of key. It removes the least recently used value if the cache
// exceeds its limit.
func (r *Cache[K, V]) Put(key K, value V) {
	r.Update(key, func(V) V { return value })
}

// Update sets the value of key to the result of change and returns it. change receives
// the previous value, or the zero value if key has none. The cache is locked while
// change runs.
func (r *Cache[K, V]) Update(key K, change func(V) V) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if !ok {
		e = r.order.PushFront(&kept[K, V]{key: key})
		r.byKey[key] = e
	}
	r.order.MoveToFront(e)
	k := e.Value.(*kept[K, V])
	k.value = change(k.value)
	for r.order.Len() > r.limit {
		oldest := r.order.Back()
		delete(r.byKey, r.order.Remove(oldest).(*kept[K, V]).key)
	}
	return k.value
}
