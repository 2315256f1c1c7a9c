package limiter

import (
	"context"
	"sync"
	"time"
)

// Limiter bounds how many expensive operations run at once, and admits one per
// organisation. Waiting has a timeout.
type Limiter struct {
	all chan struct{}

	mu  sync.Mutex // guards org
	org map[string]*orgSlot
}

// orgSlot is the slot of an organisation.
type orgSlot struct {
	taken chan struct{}
	users int // holders and waiters
}

const limiterTimeout = 10 * time.Second

// New returns a limiter of atOnce concurrent operations.
func New(atOnce int) *Limiter {
	return &Limiter{all: make(chan struct{}, atOnce), org: map[string]*orgSlot{}}
}

// Acquire waits for a slot, which done releases; ok is false if the wait timed out
// or ctx ended.
func (t *Limiter) Acquire(ctx context.Context, org string) (done func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, limiterTimeout)
	defer cancel()
	own := t.enter(org)
	select {
	case own.taken <- struct{}{}:
	case <-ctx.Done():
		t.leave(org)
		return nil, false
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-own.taken
		t.leave(org)
		return nil, false
	}
	return func() {
		<-t.all
		<-own.taken
		t.leave(org)
	}, true
}

func (t *Limiter) enter(org string) *orgSlot {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.org[org]
	if own == nil {
		own = &orgSlot{taken: make(chan struct{}, 1)}
		t.org[org] = own
	}
	own.users++
	return own
}

func (t *Limiter) leave(org string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.org[org].users--; t.org[org].users == 0 {
		delete(t.org, org)
	}
}
