// Package pool answers: how does a sandbox start before its run is known?
//
// A Pool keeps some sandboxes prepared, each with empty folders of its own. A
// run takes one, puts its files into the folders, adds its limits and mounts,
// and starts: what took milliseconds or, with a kernel of its own, tenths of a
// second was done before.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Config is what a Pool is made of. Driver, Dir and NewID are required.
type Config struct {
	Driver    sandbox.Driver
	Dir       string            // of the folders of sandboxes; it exists
	NewID     func() string     // names a sandbox, and its folder below Dir
	Size      int               // sandboxes that wait; 0 keeps none
	Resources sandbox.Resources // limits until a run brings its own
	Network   bool
	Logger    *slog.Logger // silent when nil
}

// Pool is safe for concurrent use.
type Pool struct {
	c    Config
	wake chan struct{} // there is room; buffered, 1

	mu      sync.Mutex // guards what follows
	waiting []*Place
	taken   time.Time // when one was taken last
}

// Place is a sandbox, prepared or not yet, with the folders on the host that it
// shows. They outlive it: who took the place removes Dir.
type Place struct {
	Box                           sandbox.Sandbox // nil until it is prepared
	Dir                           string
	Home, Workspace, Scratch, Run string // below Dir
}

// Lay makes the empty folders of a sandbox, and dir, which must not exist.
func Lay(dir string) (*Place, error) {
	p := &Place{
		Dir: dir, Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "workspace"),
		Scratch: filepath.Join(dir, "scratch"), Run: filepath.Join(dir, "run"),
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lay out a sandbox's folders: %w", err)
	}
	for folder, mode := range map[string]os.FileMode{p.Home: 0o755, p.Workspace: 0o755, p.Scratch: 0o700, p.Run: 0o755} {
		if err := os.Mkdir(folder, mode); err != nil {
			return nil, errors.Join(fmt.Errorf("lay out a sandbox's folders: %w", err), os.RemoveAll(dir))
		}
	}
	return p, nil
}

// Spec is what a sandbox in this place is prepared with.
func (p *Place) Spec(id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Home: p.Home, Workspace: p.Workspace, Scratch: p.Scratch, Run: p.Run}
}

// New makes a pool; Fill makes it useful.
func New(c Config) *Pool {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pool{c: c, wake: make(chan struct{}, 1)}
}

// Take gives a prepared sandbox, nil when none waits. The caller closes it and
// removes its folder.
func (p *Pool) Take() *Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.waiting)
	if n == 0 {
		return nil
	}
	l := p.waiting[n-1] // the newest: its pages are the warmest
	p.waiting = p.waiting[:n-1]
	p.taken = time.Now()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return l
}

// Waiting is how many sandboxes wait.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// How long Fill waits after a failure, which may be of the host for now.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// Fill keeps the pool full until ctx ends, then empties it. Run it once.
func (p *Pool) Fill(ctx context.Context) {
	defer p.empty(context.WithoutCancel(ctx))
	pause := firstPause
	for ctx.Err() == nil {
		if p.Waiting() >= p.c.Size {
			select {
			case <-p.wake:
			case <-ctx.Done():
			}
			continue
		}
		if !p.calm(ctx) {
			continue
		}
		err := p.add(ctx)
		if err == nil {
			pause = firstPause
			continue
		}
		if ctx.Err() == nil {
			p.c.Logger.Warn("a sandbox could not be prepared ahead; trying again", "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, lastPause)
	}
}

// settling is how long a run that took a sandbox is left alone before another
// is prepared, which takes a processor for as long as its start does.
const settling = 25 * time.Millisecond

// calm waits until no run has just taken a sandbox, unless few are left.
func (p *Pool) calm(ctx context.Context) bool {
	p.mu.Lock()
	wait := settling - time.Since(p.taken)
	few := 2*len(p.waiting) < p.c.Size
	p.mu.Unlock()
	if wait <= 0 || few {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return false // look again
}

func (p *Pool) add(ctx context.Context) error {
	id := p.c.NewID()
	l, err := Lay(filepath.Join(p.c.Dir, id))
	if err != nil {
		return err
	}
	spec := l.Spec(id)
	spec.Resources, spec.Network = p.c.Resources, p.c.Network
	l.Box, err = p.c.Driver.Prepare(ctx, spec)
	if err != nil {
		return errors.Join(err, os.RemoveAll(l.Dir))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, l)
	return nil
}

func (p *Pool) empty(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for l := p.Take(); l != nil; l = p.Take() {
		if err := l.discard(ctx); err != nil {
			p.c.Logger.Warn("a prepared sandbox was not removed", "error", err)
		}
	}
}

// discard closes a sandbox that nobody used, and removes its folder.
func (p *Place) discard(ctx context.Context) error {
	err := p.Box.Close(ctx)
	if n := p.Box.Network(); n != nil {
		err = errors.Join(err, n.Close())
	}
	return errors.Join(err, os.RemoveAll(p.Dir))
}
