// Package group answers: how do many callers share one commit?
//
// Callers hand in items and wait; a few goroutines take what is waiting,
// commit it at once and tell each caller its own verdict. A lone caller is
// served at once: nothing waits for company.
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

// ErrClosed says that the group takes no more items.
var ErrClosed = errors.New("groupcommit: closed")

var errNothing = errors.New("groupcommit: commit took nothing")

// Commit makes the items durable together. It gets at least one item and
// keeps getting those that arrive while it works, up to the group's bound. It
// returns one verdict for each item that it took, in order; nil for all fine.
type Commit[T any] func(items iter.Seq[T]) []error

// Group collects items for a Commit. It is safe for concurrent use.
type Group[T any] struct {
	commit Commit[T]
	most   int
	calls  chan *call[T]
	loops  sync.WaitGroup

	mu     sync.RWMutex // held for reading while sending to calls
	closed bool         // guarded by mu
}

type call[T any] struct {
	ctx  context.Context
	item T
	done chan error // of capacity 1, so that nobody waits for a caller that left
}

// New starts n goroutines that commit up to most items at once.
func New[T any](n, most int, commit Commit[T]) *Group[T] {
	g := &Group[T]{commit: commit, most: most, calls: make(chan *call[T], most)}
	for range n {
		g.loops.Go(g.loop)
	}
	return g
}

// Do hands in an item and waits until it is committed. When ctx ends first,
// the item may or may not be committed, and may still be in use.
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

// Close refuses further items and waits until those handed in are committed.
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

// serve commits first and what is waiting, and answers each caller.
func (g *Group[T]) serve(first *call[T]) {
	var taken []*call[T]
	verdicts, err := g.guarded(func(yield func(T) bool) {
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
	if len(taken) == 0 {
		select {
		case first.done <- cmp.Or(err, errNothing):
		default: // answered: its context had ended
		}
	}
	for i, c := range taken {
		switch {
		case err != nil:
			c.done <- err
		case verdicts != nil:
			c.done <- verdicts[i]
		default:
			c.done <- nil
		}
	}
}

// guarded keeps a panic or a wrong count of verdicts from taking the loop down.
func (g *Group[T]) guarded(items iter.Seq[T]) (verdicts []error, err error) {
	taken := 0
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("groupcommit: commit panicked: %v\n%s", p, debug.Stack())
		} else if verdicts != nil && len(verdicts) != taken {
			err = fmt.Errorf("groupcommit: %d verdicts for %d items", len(verdicts), taken)
		}
	}()
	verdicts = g.commit(func(yield func(T) bool) {
		for item := range items {
			taken++
			if !yield(item) {
				return
			}
		}
	})
	return verdicts, nil
}

// next takes a waiting call, if there is one. It lets others run once before
// it believes that there is none: callers that were just answered are about
// to come back.
func (g *Group[T]) next(taken int) *call[T] {
	if taken >= g.most {
		return nil
	}
	for range 2 {
		select {
		case c := <-g.calls: // nil when closed and empty
			return c
		default:
			runtime.Gosched()
		}
	}
	return nil
}
