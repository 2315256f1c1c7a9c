package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

type instance struct {
	driver *Driver
	spec   sandbox.Spec
	ctx    context.Context // of the script; it ends at SIGKILL, not with a caller's context
	cancel context.CancelCauseFunc
	term   chan struct{} // closed at SIGTERM
	ended  chan struct{} // closed when the script has returned

	mu      sync.Mutex // guards the fields below
	started bool
	killed  bool // Kill was called before the script ended
	closed  bool
	exit    sandbox.Exit // valid once ended is closed
	usage   sandbox.Usage
}

// ID returns the spec's ID.
func (sb *instance) ID() string { return sb.spec.ID }

// Network returns nil.
func (sb *instance) Network() *sandbox.Network { return nil }

// Attach replaces the limits of the spec and adds mounts to it, if the driver has
// SupportsAttach set.
func (sb *instance) Attach(_ context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	if !sb.driver.SupportsAttach {
		return sandbox.ErrAttach
	}
	if err := rejectOverlays(mounts); err != nil {
		return err
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.spec.Resources, sb.spec.Mounts = r, append(sb.spec.Mounts, sandbox.Flatten(mounts)...)
	return nil
}

// Start starts the script in a new goroutine.
func (sb *instance) Start(ctx context.Context, c sandbox.Command) error {
	if len(c.Argv) == 0 {
		return &sandbox.Error{Message: "The command is empty."}
	}
	if sb.driver.OnStart != nil {
		if err := sb.driver.OnStart(ctx, sb.spec, c); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("fake: starting: %w", context.Cause(ctx))
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.started || sb.killed || sb.closed {
		return errors.New("fake: Start after Start, Kill or Close")
	}
	sb.started = true
	p := sb.newProc(c)
	go sb.runScript(p)
	return nil
}

func (sb *instance) runScript(p *Proc) {
	exit := sb.driver.script(sb.ctx, p)
	sb.mu.Lock()
	defer sb.mu.Unlock()
	switch {
	case sb.killed:
		exit.Cause = sandbox.Killed
		if exit.Code == 0 && exit.Signal == 0 && sb.ctx.Err() != nil {
			exit.Code, exit.Signal = 137, 9
		}
	case exit.Cause == "":
		exit.Cause = sandbox.Exited
	}
	sb.exit = exit
	close(sb.ended)
}

// Wait waits until the script has returned, and returns its exit.
func (sb *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	sb.mu.Lock()
	started := sb.started
	sb.mu.Unlock()
	if !started {
		return sandbox.Exit{}, errors.New("fake: Wait before Start")
	}
	select {
	case <-sb.ended:
		return sb.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("fake: waiting: %w", context.Cause(ctx))
	}
}

// Usage returns the values that the script set.
func (sb *instance) Usage(context.Context) (sandbox.Usage, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.closed {
		return sandbox.Usage{}, errors.New("fake: Usage after Close")
	}
	return sb.usage, nil
}

// Kill closes Term, cancels the script's context after grace or when ctx ends, and
// waits until the script has returned or ctx ends.
func (sb *instance) Kill(ctx context.Context, grace time.Duration) error {
	if !sb.terminate() {
		return nil
	}
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-sb.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	sb.cancel(errKilled)
	select {
	case <-sb.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fake: killing: %w", context.Cause(ctx))
	}
}

// terminate simulates SIGTERM and reports whether the script is running. It prevents a
// script that was not started from being started.
func (sb *instance) terminate() bool {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	select {
	case <-sb.ended:
		return false
	default:
	}
	if !sb.killed {
		sb.killed = true
		close(sb.term)
	}
	if !sb.started {
		sb.cancel(errKilled)
	}
	return sb.started
}

// Close kills the script without a grace period and removes the sandbox.
func (sb *instance) Close(ctx context.Context) error {
	err := sb.Kill(ctx, 0)
	sb.cancel(errKilled)
	sb.mu.Lock()
	sb.closed = true
	sb.mu.Unlock()
	sb.driver.remove(sb.spec.ID)
	return err
}
