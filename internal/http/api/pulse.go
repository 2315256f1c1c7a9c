package api

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errQuiet is the end of a wait in which nothing happened.
var errQuiet = errors.New("nothing happened for a while")

// pulse gives an event stream the contexts in which it waits, one after the
// other. Each ends when the stream must, or when nothing happened for a while;
// renew puts another in the place of one that ended by silence. There are many
// streams, so a wait is one small thing where a tree of contexts would be five.
type pulse struct {
	request context.Context
	timer   *time.Timer

	mu      sync.Mutex // guards the rest
	present *wait
	ended   bool // the stream must end
}

// wait is the context of one wait. Once ended it stays so: contexts that were
// derived from it may look only later.
type wait struct {
	context.Context // the request's
	done            chan struct{}
	err             error // why it ended; set before done is closed
}

// newPulse begins the first wait under parent, quiet for d at most.
func newPulse(parent context.Context, d time.Duration) (p *pulse, stop func() bool) {
	p = &pulse{request: parent, present: newWait(parent)}
	p.mu.Lock() // the timer may fire before it is stored
	p.timer = time.AfterFunc(d, p.quiet)
	p.mu.Unlock()
	return p, context.AfterFunc(parent, p.end)
}

func newWait(parent context.Context) *wait { return &wait{Context: parent, done: make(chan struct{})} }

// Done is closed when the wait ends.
func (w *wait) Done() <-chan struct{} { return w.done }

// Err is errQuiet after silence, context.Canceled when the stream must end.
func (w *wait) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// wait is the present one.
func (p *pulse) wait() *wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.present
}

func (p *pulse) quiet() { p.finish(errQuiet) }

// end ends the stream. It may be called often.
func (p *pulse) end() { p.finish(context.Canceled) }

func (p *pulse) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = p.ended || errors.Is(err, context.Canceled)
	if p.present.Err() == nil {
		p.present.err = err
		close(p.present.done)
	}
}

// over reports whether the stream must end.
func (p *pulse) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// renew begins the next wait.
func (p *pulse) renew(d time.Duration) {
	p.timer.Reset(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && p.present.Err() != nil {
		p.present = newWait(p.request)
	}
}
