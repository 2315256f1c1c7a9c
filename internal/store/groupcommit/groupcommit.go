// Package groupcommit commits the items of concurrent callers together.
//
// Callers submit items and wait. A few goroutines collect the waiting items,
// commit them together, and return to each caller the result for its item. A single
// item is committed at once, without waiting for others.
package groupcommit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync"
)

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("groupcommit: closed")

var errNotTaken = errors.New("groupcommit: commit took no item")

// Commit makes the items durable together. The sequence includes items that arrive
// during the iteration, up to the group's limit. It is empty if the contexts of all
// waiting callers have ended. Commit returns one error for each item that it took from
// the sequence, in order, or nil if all succeeded.
type Commit[T any] func(items iter.Seq[T]) []error

// Group collects items for a Commit. It is safe for concurrent use.
type Group[T any] struct {
	commit Commit[T]
	limit  int
	calls  chan *call[T]
	loops  sync.WaitGroup

	mu     sync.RWMutex // read-locked while sending to calls
	closed bool         // guarded by mu
}

type call[T any] struct {
	ctx  context.Context
	item T
	done chan error // capacity 1, so that the sender does not wait for a caller that has given up
}

// New starts n goroutines that commit up to limit items at once.
func New[T any](n, limit int, commit Commit[T]) *Group[T] {
	g := &Group[T]{commit: commit, limit: limit, calls: make(chan *call[T], limit)}
	for range n {
		g.loops.Go(g.loop)
	}
	return g
}

// Do submits an item, waits until it is committed, and returns its error. If ctx ends
// first, the item may or may not be committed, and commit may still be using it.
func (g *Group[T]) Do(ctx context.Context, item T) error {
	c := &call[T]{ctx: ctx, item: item, done: make(chan error, 1)}
	if err := g.send(c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *Group[T]) send(c *call[T]) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return ErrClosed
	}
	select {
	case g.calls <- c:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// Close refuses further items and waits until the submitted ones are committed.
func (g *Group[T]) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.calls)
	}
	g.mu.Unlock()
	g.loops.Wait()
}

func (g *Group[T]) loop() {
	for first := range g.calls {
		g.serve(first)
	}
}

// serve commits first together with the waiting items, and sends each caller the result
// for its item.
func (g *Group[T]) serve(first *call[T]) {
	var taken []*call[T]
	results, err := g.commitSafely(func(yield func(T) bool) {
		for c := first; c != nil; c = g.next(len(taken)) {
			if c.ctx.Err() != nil {
				c.done <- context.Cause(c.ctx)
				continue
			}
			taken = append(taken, c)
			if !yield(c.item) {
				return
			}
		}
	})
	if err == nil && results != nil && len(results) != len(taken) {
		err = fmt.Errorf("groupcommit: %d results for %d items", len(results), len(taken))
	}
	if len(taken) == 0 {
		select {
		case first.done <- cmp.Or(err, errNotTaken):
		default: // already answered: its context had ended
		}
	}
	for i, c := range taken {
		switch {
		case err != nil:
			c.done <- err
		case results != nil:
			c.done <- results[i]
		default:
			c.done <- nil
		}
	}
}

// commitSafely calls commit and converts a panic to an error.
func (g *Group[T]) commitSafely(items iter.Seq[T]) (results []error, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("groupcommit: commit panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return g.commit(items), nil
}

// next returns a waiting call, or nil if there is none or the limit is reached. If no
// call is waiting, next yields the processor and looks once more, because callers that
// just received a result often submit another item.
func (g *Group[T]) next(taken int) *call[T] {
	if taken >= g.limit {
		return nil
	}
	for range 2 {
		select {
		case c := <-g.calls: // nil if closed and empty
			return c
		default:
			runtime.Gosched()
		}
	}
	return nil
}
