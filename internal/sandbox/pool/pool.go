// Package pool keeps prepared sandboxes for runs that are not known yet.
//
// Each sandbox has its own empty folders. The worker takes a sandbox for a run,
// adds the run's files, limits, and mounts, and starts the command. This saves the
// time to prepare a sandbox: milliseconds, or tenths of a second with a user-space
// kernel.
package pool

import (
	"cmp"
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

// Config contains a pool's settings. Driver, Dir, and NewID are required.
type Config struct {
	Driver    sandbox.Driver
	Dir       string            // contains the sandboxes' folders; it must exist
	NewID     func() string     // returns the ID of a sandbox, which is also the name of its folder
	Size      int               // number of prepared sandboxes; 0 disables the pool
	Resources sandbox.Resources // limits until a run sets its own
	Network   bool
	Logger    *slog.Logger // silent when nil
}

// Pool holds prepared sandboxes. It is safe for concurrent use.
type Pool struct {
	c    Config
	wake chan struct{} // capacity 1; receives after Take has removed a sandbox

	mu        sync.Mutex // guards the fields below
	ready     []*Dirs
	lastTaken time.Time // time of the last Take
	hits      int64     // calls of Take that returned a sandbox
	misses    int64     // calls of Take that returned none
}

// Dirs contains the host folders of a sandbox, and the sandbox after it was prepared.
// The folders exist until the owner of the Dirs removes Dir.
type Dirs struct {
	Sandbox                       sandbox.Sandbox // nil until it is prepared
	Dir                           string
	Home, Workspace, Scratch, Run string // below Dir
}

// MakeDirs creates dir, which must not exist, and the empty folders of a
// sandbox in it.
func MakeDirs(dir string) (*Dirs, error) {
	p := &Dirs{
		Dir: dir, Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "workspace"),
		Scratch: filepath.Join(dir, "scratch"), Run: filepath.Join(dir, "run"),
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating a sandbox's folders: %w", err)
	}
	for folder, mode := range map[string]os.FileMode{p.Home: 0o755, p.Workspace: 0o755, p.Scratch: 0o700, p.Run: 0o755} {
		if err := os.Mkdir(folder, mode); err != nil {
			return nil, errors.Join(fmt.Errorf("creating a sandbox's folders: %w", err), os.RemoveAll(dir))
		}
	}
	return p, nil
}

// Spec returns the spec for a sandbox with these folders.
func (p *Dirs) Spec(id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Home: p.Home, Workspace: p.Workspace, Scratch: p.Scratch, Run: p.Run}
}

// New returns an empty pool. Fill fills it.
func New(c Config) *Pool {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Pool{c: c, wake: make(chan struct{}, 1)}
}

// Take removes a prepared sandbox from the pool and returns it, or returns nil if
// there is none. The caller closes the sandbox and removes its folders.
func (p *Pool) Take() *Dirs {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.ready)
	if n == 0 {
		p.misses++
		return nil
	}
	p.hits++
	l := p.ready[n-1] // the memory of the newest is most likely not swapped out
	p.ready = p.ready[:n-1]
	p.lastTaken = time.Now()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return l
}

// Size returns the number of prepared sandboxes.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

// Stats contains the number of prepared sandboxes and how often Take returned one.
type Stats struct {
	Ready, Size  int // Size is the number that Fill keeps ready
	Hits, Misses int64
}

// Stats returns the current numbers.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Ready: len(p.ready), Size: p.c.Size, Hits: p.hits, Misses: p.misses}
}

// The backoff of Fill after failures.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Fill keeps the pool full until ctx ends, then closes all its sandboxes. It
// must be called once.
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
			p.c.Logger.Warn("preparing a sandbox for the pool failed; trying again", "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxBackoff)
	}
}

// idleTime is the pause between a Take and the preparation of the next sandbox.
// Without it, the preparation and the start of the run would compete for CPU time.
const idleTime = 25 * time.Millisecond

// waitForIdle returns true at once if the last Take was at least idleTime ago, or if
// less than half of the sandboxes are left. Otherwise it waits for the rest of
// idleTime and returns false.
func (p *Pool) waitForIdle(ctx context.Context) bool {
	p.mu.Lock()
	wait := idleTime - time.Since(p.lastTaken)
	few := 2*len(p.ready) < p.c.Size
	p.mu.Unlock()
	if wait <= 0 || few {
		return true
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return false // another Take may have happened: the caller calls waitForIdle again
}

// add prepares one sandbox and adds it to the pool.
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
			p.c.Logger.Warn("removing a prepared sandbox failed", "error", err)
		}
	}
}

// close closes an unused sandbox and removes its folders.
func (p *Dirs) close(ctx context.Context) error {
	err := p.Sandbox.Close(ctx)
	if n := p.Sandbox.Network(); n != nil {
		err = errors.Join(err, n.Close())
	}
	return errors.Join(err, os.RemoveAll(p.Dir))
}
