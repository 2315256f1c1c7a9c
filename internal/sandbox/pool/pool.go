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

	mu        sync.Mutex // guards what follows
	ready     []*Dirs
	lastTaken time.Time // when one was taken last
}

// Dirs is a sandbox, prepared or not yet, with the folders on the host that it
// shows. They outlive it: who took the place removes Dir.
type Dirs struct {
	Sandbox                       sandbox.Sandbox // nil until it is prepared
	Dir                           string
	Home, Workspace, Scratch, Run string // below Dir
}

// MakeDirs makes the empty folders of a sandbox, and dir, which must not exist.
func MakeDirs(dir string) (*Dirs, error) {
	p := &Dirs{
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
func (p *Dirs) Spec(id string) sandbox.Spec {
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
func (p *Pool) Take() *Dirs {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.ready)
	if n == 0 {
		return nil
	}
	l := p.ready[n-1] // the newest: its pages are the warmest
	p.ready = p.ready[:n-1]
	p.lastTaken = time.Now()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return l
}

// Waiting is how many sandboxes wait.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

// How long Fill waits after a failure, which may be of the host for now.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Fill keeps the pool full until ctx ends, then empties it. Run it once.
func (p *Pool) Fill(ctx context.Context) {
	defer p.closeAll(context.WithoutCancel(ctx))
	pause := minBackoff
	for ctx.Err() == nil {
		if p.Size() >= p.c.Size {
			select {
			case <-p.wake:
			case <-ctx.Done():
			}
			continue
		}
		if !p.waitForIdle(ctx) {
			continue
		}
		err := p.add(ctx)
		if err == nil {
			pause = minBackoff
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
		pause = min(2*pause, maxBackoff)
	}
}

// settling is how long a run that took a sandbox is left alone before another
// is prepared, which takes a processor for as long as its start does.
const idleTime = 25 * time.Millisecond

// calm waits until no run has just taken a sandbox, unless few are left.
func (p *Pool) waitForIdle(ctx context.Context) bool {
	p.mu.Lock()
	wait := idleTime - time.Since(p.lastTaken)
	few := 2*len(p.ready) < p.c.Size
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
	l, err := MakeDirs(filepath.Join(p.c.Dir, id))
	if err != nil {
		return err
	}
	spec := l.Spec(id)
	spec.Resources, spec.Network = p.c.Resources, p.c.Network
	l.Sandbox, err = p.c.Driver.Prepare(ctx, spec)
	if err != nil {
		return errors.Join(err, os.RemoveAll(l.Dir))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = append(p.ready, l)
	return nil
}

func (p *Pool) closeAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for l := p.Take(); l != nil; l = p.Take() {
		if err := l.close(ctx); err != nil {
			p.c.Logger.Warn("a prepared sandbox was not removed", "error", err)
		}
	}
}

// discard closes a sandbox that nobody used, and removes its folder.
func (p *Dirs) close(ctx context.Context) error {
	err := p.Sandbox.Close(ctx)
	if n := p.Sandbox.Network(); n != nil {
		err = errors.Join(err, n.Close())
	}
	return errors.Join(err, os.RemoveAll(p.Dir))
}
