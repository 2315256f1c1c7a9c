package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errQuiet is the end of a wait in which nothing happened.
var errQuiet = errors.New("nothing happened for a while")

// pulse is the context in which an event stream waits. Each wait ends when the
// stream must, or when nothing happened for a while; after such silence renew
// makes it good for the next wait, with another Done. There are many streams,
// so it is one small thing where a tree of contexts would be five.
type pulse struct {
	context.Context // the request's

	mu    sync.Mutex // guards the rest
	done  chan struct{}
	err   error // why the wait ended; nil while it goes on
	timer *time.Timer
}

// newPulse waits under parent, quiet for d at most.
func newPulse(parent context.Context, d time.Duration) (p *pulse, stop func() bool) {
	p = &pulse{Context: parent, done: make(chan struct{})}
	p.mu.Lock() // the timer may fire before it is stored
	p.timer = time.AfterFunc(d, p.quiet)
	p.mu.Unlock()
	return p, context.AfterFunc(parent, p.end)
}

// Done is closed when the present wait ends.
func (p *pulse) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Err is errQuiet after silence, context.Canceled when the stream must end.
func (p *pulse) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *pulse) quiet() { p.finish(errQuiet) }

// end ends the stream. It may be called often.
func (p *pulse) end() { p.finish(context.Canceled) }

func (p *pulse) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		close(p.done)
	}
	if !errors.Is(p.err, context.Canceled) {
		p.err = err
	}
}

// over reports whether the stream must end.
func (p *pulse) over() bool { return errors.Is(p.Err(), context.Canceled) }

// renew begins the next wait.
func (p *pulse) renew(d time.Duration) {
	p.timer.Reset(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.err, errQuiet) {
		p.err, p.done = nil, make(chan struct{})
	}
}
