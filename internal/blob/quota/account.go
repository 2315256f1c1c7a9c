package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/blob"
)

// account is what is known of an organisation.
type account struct {
	mu      sync.Mutex     // guards what follows
	kept    blob.Usage     // objects that are there
	coming  blob.Usage     // what is being put
	moving  map[string]int // how many put or delete each object just now
	counted time.Time      // zero: never
	count   *count         // under way, or nil
}

// count is a listing of an organisation's objects beside those who put and
// delete some. What is touched since it began is counted by what becomes of it,
// whatever the list says.
type count struct {
	done    chan struct{} // closed in the end
	err     error         // then
	listed  blob.Usage
	last    string // key of the object that was listed last
	changed blob.Usage
	touched map[string]*touched
}

// touched is an object that was put or deleted since a count began, or is being.
type touched struct {
	known bool // if it was there, it is in listed or changed
	seen  bool // the list has it, and did not count it
	size  int64
}

func (c *count) touch(key string) {
	if c.touched[key] == nil {
		c.touched[key] = &touched{known: key <= c.last}
	}
}

// list counts an object that the storage has.
func (c *count) list(info blob.Info) {
	c.last = info.Key
	if t := c.touched[info.Key]; t != nil {
		t.seen, t.size = true, info.Size
		return
	}
	add(&c.listed, info.Size, 1)
}

// stays counts an object that was touched in vain.
func (c *count) stays(key string) {
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

// begin tells that somebody is about to put or delete an object.
func (a *account) begin(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moving[key]++
	if a.count != nil {
		a.count.touch(key)
	}
}

// end tells what became of it: so many bytes came, less than 0 went, or nothing
// happened. The lock is held.
func (a *account) end(key string, bytes, objects int64) {
	if a.moving[key]--; a.moving[key] == 0 {
		delete(a.moving, key)
	}
	add(&a.kept, bytes, objects)
	c := a.count
	switch {
	case c == nil:
	case objects == 0 && a.moving[key] > 0: // the last of them sees to it
	case objects == 0:
		c.stays(key)
	case objects > 0 || c.touched[key].known:
		add(&c.changed, bytes, objects)
		c.touched[key].known = objects > 0
	}
}

// ready sees to a count that can be believed. Only the first one is waited for:
// while another goes on the former serves.
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
		for key := range a.moving {
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

// recount lists what the organisation keeps. Where that fails the former count
// is believed on: it has all that happened through this store.
func (s *Store) recount(ctx context.Context, org string, a *account, c *count) {
	var err error
	for info, failed := range s.List(ctx, org+"/") {
		if failed != nil {
			err = fmt.Errorf("counting what %s keeps: %w", org, failed)
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
		a.kept = c.listed
		add(&a.kept, c.changed.Bytes, c.changed.Objects)
	}
	if err == nil || !a.counted.IsZero() {
		a.counted = s.o.Now()
	}
	a.count = nil
	close(c.done)
}
