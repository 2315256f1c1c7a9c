package limiter

import (
	"context"
	"sync"
	"time"
)

// Limiter limits the number of expensive operations that run at once. It admits only
// one operation at a time per organisation. It is safe for concurrent use.
type Limiter struct {
	all chan struct{}

	mu  sync.Mutex // guards org
	org map[string]*orgSlot
}

// orgSlot admits one operation of an organisation at a time.
type orgSlot struct {
	taken chan struct{} // full while an admitted operation runs, or waits for Limiter.all
	users int           // operations that run or wait
}

// limiterTimeout is the maximum duration for which Acquire waits.
const limiterTimeout = 10 * time.Second

// New returns a limiter that admits atOnce concurrent operations.
func New(atOnce int) *Limiter {
	return &Limiter{all: make(chan struct{}, atOnce), org: map[string]*orgSlot{}}
}

// Acquire waits at most 10 seconds until an operation of the organisation may run.
// The caller must call done when the operation has ended. If the wait timed out or
// ctx ended, ok is false and done is nil.
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
