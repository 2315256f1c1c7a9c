//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/sandbox/diskusage"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
)

// box is one sandbox, seen from outside.
type box struct {
	driver   *Driver
	spec     sandbox.Spec
	slot     int
	ranged   bool     // slot is reserved
	view     *os.File // the driver's, which maps the server's user to the agent
	system   []setup.SystemEntry
	process  *os.Process
	session  *control.Session
	group    *cgroup.Group
	words    *os.File         // init's stderr
	lifeline *os.File         // init behind an inner kernel ends with it; nil without one
	network  *sandbox.Network // nil without one
	disk     diskusage.Meter
	work     sync.WaitGroup // the listener

	turn     sync.Mutex // held by Attach and Start, and guards what follows
	attached bool
	mounts   []setup.Mount // all of them

	closing sync.Mutex // held by the one Close that works
	closed  bool

	mu       sync.Mutex // guards what follows
	limits   sandbox.Resources
	writable []string     // folders of the host
	uppers   []string     // whose work folders are ours
	full     bool         // killed for its disk limit
	starved  bool         // killed for its memory limit, where no group holds it
	weighed  bool         // the folders were measured after the end
	last     cgroup.Usage // latest sample by process, where groups do not count
	spent    time.Duration
}

// ID is the spec's.
func (b *box) ID() string { return b.spec.ID }

// Network is the far end of the network that the spec asked for.
func (b *box) Network() *sandbox.Network { return b.network }

// now gives the limits and the writable folders.
func (b *box) now() (sandbox.Resources, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limits, b.writable
}

// bury ends init, which has closed its socket, and reaps it: an open socket
// without init, or the reverse, cannot be; were it, this ends it.
func (b *box) bury() {
	if err := b.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.driver.log.Warn("killing a sandbox failed", "sandbox", b.spec.ID, "error", err)
	}
	state, err := b.process.Wait()
	if err == nil {
		b.mu.Lock()
		b.spent = state.UserTime() + state.SystemTime()
		b.mu.Unlock()
	}
}

// hangUp ends the network, for those who still accept from it and because its
// sockets would keep its namespace.
func (b *box) hangUp() {
	if b.network != nil {
		_ = b.network.TCP.Close() // whoever took it may have closed it
		_ = b.network.DNS.Close()
	}
}

// judge knows what init cannot.
func (b *box) judge(e sandbox.Exit, killed bool) sandbox.Cause {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.full && e.Cause == sandbox.Lost:
		return sandbox.DiskFull
	case b.starved && e.Cause == sandbox.Lost:
		return sandbox.OOMKilled
	case e.Cause == sandbox.Lost && killed:
		return sandbox.Killed
	case e.Cause == sandbox.Killed:
		return e.Cause
	case e.Code == 128+int(syscall.SIGKILL) && b.group.OOMKills() > 0:
		return sandbox.OOMKilled // the command itself, or the child for which it took this code
	}
	return e.Cause
}

// Start hands the command to init.
func (b *box) Start(ctx context.Context, c sandbox.Command) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	err := b.session.Start(ctx, c)
	if err != nil && ctx.Err() != nil {
		// Whether it has started or not, it must not go on.
		if kerr := b.process.Kill(); !errors.Is(kerr, os.ErrProcessDone) {
			err = errors.Join(err, kerr)
		}
	}
	return err
}

// Wait waits for the command's end.
func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) { return b.session.Wait(ctx) }

// Kill ends everything inside.
func (b *box) Kill(ctx context.Context, grace time.Duration) error {
	if b.process == nil {
		return nil
	}
	b.session.Refuse()
	if grace > 0 && b.session.Started() {
		b.session.Terminate(ctx, grace)
	}
	if err := b.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing sandbox: %w", err)
	}
	select {
	case <-b.session.Gone(): // the kernel lets a PID namespace's first process end last
		return nil
	case <-ctx.Done():
		return fmt.Errorf("killing sandbox: %w", context.Cause(ctx))
	}
}

// Close kills, and gives back all that Prepare took.
func (b *box) Close(ctx context.Context) error {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.closed {
		return nil
	}
	if err := b.Kill(ctx, 0); err != nil {
		return err
	}
	var errs []error
	if b.process == nil && b.session != nil {
		b.session.Close()
	}
	b.work.Wait()
	if b.group != nil {
		errs = append(errs, b.group.Close(ctx))
	}
	if b.words != nil {
		b.words.Close()
	}
	if b.lifeline != nil {
		b.lifeline.Close()
	}
	if b.ranged {
		b.driver.ranges.release(b.slot)
		b.ranged = false
	}
	errs = append(errs, b.driver.dropRecord(b.spec.ID), b.release(0))
	if b.session != nil {
		errs = append(errs, b.session.Settle(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing sandbox: %w", err)
	}
	b.closed = true
	b.driver.dismiss(b.spec.ID)
	return nil
}
