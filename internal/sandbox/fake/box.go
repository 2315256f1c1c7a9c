package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

type box struct {
	driver *Driver
	spec   sandbox.Spec
	ctx    context.Context // ends at SIGKILL; it is the sandbox's life, not a caller's
	cancel context.CancelCauseFunc
	term   chan struct{} // closed at SIGTERM
	ended  chan struct{} // closed when the script has returned

	mu      sync.Mutex // guards what follows
	started bool
	killed  bool // Kill came before the script's end
	closed  bool
	exit    sandbox.Exit // valid once ended is closed
	usage   sandbox.Usage
}

// ID is the spec's.
func (b *box) ID() string { return b.spec.ID }

// Network is none.
func (b *box) Network() *sandbox.Network { return nil }

// Attach takes all where the driver Attaches.
func (b *box) Attach(_ context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	if !b.driver.Attaches {
		return sandbox.ErrAttach
	}
	if err := refuseLayers(mounts); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spec.Resources, b.spec.Mounts = r, append(b.spec.Mounts, sandbox.Plain(mounts)...)
	return nil
}

// Start runs the script.
func (b *box) Start(ctx context.Context, c sandbox.Command) error {
	if len(c.Argv) == 0 {
		return &sandbox.Error{Message: "The command is empty."}
	}
	if b.driver.OnStart != nil {
		if err := b.driver.OnStart(ctx, b.spec, c); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("fake: starting: %w", context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.killed || b.closed {
		return errors.New("fake: Start after Start, Kill or Close")
	}
	b.started = true
	p := b.newProc(c)
	go b.play(p)
	return nil
}

func (b *box) play(p *Proc) {
	exit := b.driver.script(b.ctx, p)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.killed:
		exit.Cause = sandbox.Killed
		if exit.Code == 0 && exit.Signal == 0 && b.ctx.Err() != nil {
			exit.Code, exit.Signal = 137, 9
		}
	case exit.Cause == "":
		exit.Cause = sandbox.Exited
	}
	b.exit = exit
	close(b.ended)
}

// Wait waits for the script.
func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	b.mu.Lock()
	started := b.started
	b.mu.Unlock()
	if !started {
		return sandbox.Exit{}, errors.New("fake: Wait before Start")
	}
	select {
	case <-b.ended:
		return b.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("fake: waiting: %w", context.Cause(ctx))
	}
}

// Usage answers what the script set.
func (b *box) Usage(context.Context) (sandbox.Usage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return sandbox.Usage{}, errors.New("fake: Usage after Close")
	}
	return b.usage, nil
}

// Kill closes Term, and ends the script's context after grace.
func (b *box) Kill(ctx context.Context, grace time.Duration) error {
	if !b.terminate() {
		return nil
	}
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-b.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	b.cancel(errKilled)
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fake: killing: %w", context.Cause(ctx))
	}
}

// terminate is the SIGTERM; it tells whether there is somebody to wait for.
func (b *box) terminate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.ended:
		return false
	default:
	}
	if !b.killed {
		b.killed = true
		close(b.term)
	}
	if !b.started {
		b.cancel(errKilled)
	}
	return b.started
}

// Close kills at once and forgets the sandbox.
func (b *box) Close(ctx context.Context) error {
	err := b.Kill(ctx, 0)
	b.cancel(errKilled)
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.driver.forget(b.spec.ID)
	return err
}
