package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// SetupLimit is the default time limit of each of Prepare, Attach, and Start.
const SetupLimit = 30 * time.Second

// ErrTimeLimit is wrapped by the errors of calls that exceeded the time limit of Bound.
var ErrTimeLimit = errors.New("sandbox: the time limit for the set-up was exceeded")

// Bound returns a driver like d with a time limit for each Probe, Prepare, Attach, and
// Start. These methods, and Wait, Kill, and Close, return even if those of d do not
// react to the end of their context, as on a host whose kernel blocks. A sandbox that d
// prepares after the limit is closed. After a Kill that did not end the sandbox in its
// time, Wait returns an error.
func Bound(d Driver, limit time.Duration) Driver { return boundDriver{d, limit} }

type boundDriver struct {
	Driver
	limit time.Duration
}

// settle returns the time in which a call must return after the end of its context.
func settle(limit time.Duration) time.Duration { return min(limit/6, time.Second) }

// Within calls f with a context that ends after the limit, and returns its error. If f
// has not returned soon after the end of its context, Within returns an error and does
// not wait for f. If f then succeeds, late is called, unless it is nil. If the limit was
// exceeded, the error wraps ErrTimeLimit.
func Within(ctx context.Context, limit time.Duration, what string, f func(context.Context) error, late func()) error {
	exceeded := fmt.Errorf("%s: %w (%s)", what, ErrTimeLimit, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, exceeded)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	finished := func(err error) error {
		defer cancel()
		if err != nil && errors.Is(context.Cause(ctx), exceeded) && !errors.Is(err, ErrTimeLimit) {
			return fmt.Errorf("%w: %w", exceeded, err)
		}
		return err
	}
	select {
	case err := <-done:
		return finished(err)
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return finished(err)
	case <-time.After(settle(limit)):
	}
	cause := context.Cause(ctx)
	cancel()
	go func() { // waits for a call that may never return
		if <-done == nil && late != nil {
			late()
		}
	}()
	if errors.Is(cause, exceeded) {
		return exceeded
	}
	return fmt.Errorf("%s: %w", what, cause)
}

// Probe returns a report of a driver that is not available if d does not answer.
func (d boundDriver) Probe(ctx context.Context) Report {
	answer := make(chan Report, 1)
	err := Within(ctx, d.limit, "probe", func(ctx context.Context) error { answer <- d.Driver.Probe(ctx); return nil }, nil)
	if err != nil {
		return Report{Driver: d.Name(), Notes: []string{fmt.Sprintf("A trial did not end within %s.", d.limit)}}
	}
	return <-answer
}

// Prepare prepares a sandbox whose methods have time limits, too.
func (d boundDriver) Prepare(ctx context.Context, s Spec) (Sandbox, error) {
	var box Sandbox // read only after the call of d.Driver.Prepare has returned
	err := Within(ctx, d.limit, "prepare", func(ctx context.Context) (err error) {
		box, err = d.Driver.Prepare(ctx, s)
		return err
	}, func() { closeLate(box) })
	if err != nil {
		return nil, err
	}
	return &boundSandbox{Sandbox: box, limit: d.limit, stuck: make(chan struct{})}, nil
}

// closeLate closes a sandbox that was prepared after its time limit.
func closeLate(box Sandbox) {
	if n := box.Network(); n != nil {
		_ = n.Close() // nothing uses the network
	}
	_ = box.Close(context.Background()) // the next start of the server removes what is left
}

type boundSandbox struct {
	Sandbox
	limit time.Duration

	once  sync.Once
	stuck chan struct{} // closed after a Kill or Close that did not end in its time
}

func (b *boundSandbox) Attach(ctx context.Context, r Resources, mounts []Mount) error {
	return Within(ctx, b.limit, "attach", func(ctx context.Context) error { return b.Sandbox.Attach(ctx, r, mounts) }, nil)
}

func (b *boundSandbox) Start(ctx context.Context, c Command) error {
	return Within(ctx, b.limit, "start", func(ctx context.Context) error { return b.Sandbox.Start(ctx, c) }, nil)
}

func (b *boundSandbox) Wait(ctx context.Context) (Exit, error) {
	type result struct {
		exit Exit
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := b.Sandbox.Wait(ctx)
		done <- result{exit, err}
	}()
	select {
	case r := <-done:
		return r.exit, r.err
	case <-b.stuck:
		return Exit{}, errors.New("sandbox: it does not end")
	}
}

// Kill and Close have no limit of their own, only that of ctx.
func (b *boundSandbox) Kill(ctx context.Context, grace time.Duration) error {
	return b.end(ctx, "kill", func(ctx context.Context) error { return b.Sandbox.Kill(ctx, grace) })
}

func (b *boundSandbox) Close(ctx context.Context) error {
	return b.end(ctx, "close", b.Sandbox.Close)
}

func (b *boundSandbox) end(ctx context.Context, what string, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		if err == nil {
			return nil
		}
	case <-time.After(settle(b.limit)):
	}
	b.once.Do(func() { close(b.stuck) })
	return fmt.Errorf("%s: %w", what, context.Cause(ctx))
}
