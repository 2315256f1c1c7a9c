package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/blob"
)

// account is the usage of an organisation.
type account struct {
	mu      sync.Mutex     // guards the fields below
	stored  blob.Usage     // existing objects
	pending blob.Usage     // objects that are being put
	active  map[string]int // number of Put and Delete calls in progress, by key
	counted time.Time      // time of the last count; zero: never
	count   *count         // the count in progress, or nil
}

// count counts an organisation's objects by listing them, while other calls put and
// delete objects. A key is touched if a Put or Delete call for it is in progress when the
// count begins, or begins during the count. From then on, the listing does not count the
// object of the key: the results of these calls decide whether it counts.
type count struct {
	done    chan struct{} // closed at the end
	err     error         // valid after done
	listed  blob.Usage    // objects counted by the listing
	last    string        // the last listed key
	changed blob.Usage    // changes by calls for touched keys
	touched map[string]*touched
}

// touched is a key with a Put or Delete call since the count began.
type touched struct {
	known bool  // the sum of listed and changed includes the object, if it exists
	seen  bool  // the listing contained the object, did not count it, and no call deleted it since
	size  int64 // bytes of the object, if seen
}

func (c *count) touch(key string) {
	if c.touched[key] == nil {
		c.touched[key] = &touched{known: key <= c.last}
	}
}

// list counts an object that the listing returned, unless its key is touched.
func (c *count) list(info blob.Info) {
	c.last = info.Key
	if t := c.touched[info.Key]; t != nil {
		t.seen, t.size = true, info.Size
		return
	}
	add(&c.listed, info.Size, 1)
}

// unchanged is called when all calls for a touched key have ended and the last did not
// change its object. If the listing contained the object, unchanged counts it. If the
// listing has not reached the key yet, the key is not touched any more.
func (c *count) unchanged(key string) {
	switch t := c.touched[key]; {
	case t.known:
	case t.seen:
		add(&c.changed, t.size, 1)
		t.known = true
	default:
		delete(c.touched, key)
	}
}

func add(u *blob.Usage, bytes, objects int64) {
	u.Bytes += bytes
	u.Objects += objects
}

// begin registers a Put or Delete call.
func (a *account) begin(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active[key]++
	if a.count != nil {
		a.count.touch(key)
	}
}

// end registers the end of a Put or Delete call and the bytes and objects that the call
// added. Both are negative if the call deleted the object, and 0 if it changed nothing.
// The caller holds a.mu.
func (a *account) end(key string, bytes, objects int64) {
	if a.active[key]--; a.active[key] == 0 {
		delete(a.active, key)
	}
	add(&a.stored, bytes, objects)
	c := a.count
	switch {
	case c == nil:
	case objects == 0 && a.active[key] > 0: // the last call in progress decides
	case objects == 0:
		c.unchanged(key)
	default:
		t := c.touched[key]
		if objects > 0 || t.known {
			add(&c.changed, bytes, objects)
		}
		t.known, t.seen = objects > 0, false
	}
}

// ready starts a count if the organisation was never counted, or if its last count is
// older than Options.Recount. ready waits only for the first count. During a later count,
// the previous result stays in use.
func (s *Store) ready(ctx context.Context, org string, a *account) error {
	a.mu.Lock()
	first := a.counted.IsZero()
	if !first && (s.o.Recount == 0 || s.o.Now().Sub(a.counted) < s.o.Recount) {
		a.mu.Unlock()
		return nil
	}
	c := a.count
	if c == nil {
		c = &count{done: make(chan struct{}), touched: map[string]*touched{}}
		for key := range a.active {
			c.touch(key)
		}
		a.count = c
		if !s.start(func(ctx context.Context) { s.recount(ctx, org, a, c) }) {
			a.count = nil
			a.mu.Unlock()
			return errClosed
		}
	}
	a.mu.Unlock()
	if !first {
		return nil
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recount counts the organisation's objects. If the listing fails, the previous result
// stays in use; it includes all changes through this store.
func (s *Store) recount(ctx context.Context, org string, a *account, c *count) {
	var err error
	for info, failed := range s.List(ctx, org+"/") {
		if failed != nil {
			err = fmt.Errorf("counting the objects of %s: %w", org, failed)
			break
		}
		if !s.o.Uncounted(info.Key) {
			a.mu.Lock()
			c.list(info)
			a.mu.Unlock()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.err = err
	if err == nil {
		a.stored = c.listed
		add(&a.stored, c.changed.Bytes, c.changed.Objects)
	}
	if err == nil || !a.counted.IsZero() {
		a.counted = s.o.Now()
	}
	a.count = nil
	close(c.done)
}
