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
	"github.com/stint-dev/stint/internal/sandbox/layout"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
)

// instance is one sandbox, seen from outside.
type instance struct {
	driver     *Driver
	spec       sandbox.Spec
	slot       int
	hasRange   bool     // slot is reserved
	userns     *os.File // the driver's, which maps the server's user to the agent
	system     []layout.Entry
	process    *os.Process
	conn       *control.Conn
	group      *cgroup.Group
	stderr     *os.File         // init's stderr
	lifeline   *os.File         // init behind a user-space kernel ends with it; nil without one
	network    *sandbox.Network // nil without one
	disk       diskusage.Scanner
	goroutines sync.WaitGroup // the listener

	attachMu sync.Mutex // held by Attach and Start, and guards what follows
	attached bool
	mounts   []setup.Mount // all of them

	closeMu sync.Mutex // held by the one Close that works
	closed  bool

	mu             sync.Mutex // guards what follows
	limits         sandbox.Resources
	writable       []string     // folders of the host
	uppers         []string     // whose work folders are ours
	diskExceeded   bool         // killed for its disk limit
	memoryExceeded bool         // killed for its memory limit, where no group holds it
	finalScanDone  bool         // the folders were measured after the end
	lastSample     cgroup.Usage // latest sample by process, where groups do not count
	cpuAtExit      time.Duration
}

// ID is the spec's.
func (sb *instance) ID() string { return sb.spec.ID }

// Network is the far end of the network that the spec asked for.
func (sb *instance) Network() *sandbox.Network { return sb.network }

// now gives the limits and the writable folders.
func (sb *instance) limitsAndDirs() (sandbox.Resources, []string) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.limits, sb.writable
}

// bury ends init, which has closed its socket, and reaps it: an open socket
// without init, or the reverse, cannot be; were it, this ends it.
func (sb *instance) killAndReap() {
	if err := sb.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		sb.driver.log.Warn("killing a sandbox failed", "sandbox", sb.spec.ID, "error", err)
	}
	state, err := sb.process.Wait()
	if err == nil {
		sb.mu.Lock()
		sb.cpuAtExit = state.UserTime() + state.SystemTime()
		sb.mu.Unlock()
	}
}

// hangUp ends the network, for those who still accept from it and because its
// sockets would keep its namespace.
func (sb *instance) closeNetwork() {
	if sb.network != nil {
		_ = sb.network.TCP.Close() // whoever took it may have closed it
		_ = sb.network.DNS.Close()
	}
}

// judge knows what init cannot.
func (sb *instance) cause(e sandbox.Exit, killed bool) sandbox.Cause {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	switch {
	case sb.diskExceeded && e.Cause == sandbox.Lost:
		return sandbox.DiskFull
	case sb.memoryExceeded && e.Cause == sandbox.Lost:
		return sandbox.OOMKilled
	case e.Cause == sandbox.Lost && killed:
		return sandbox.Killed
	case e.Cause == sandbox.Killed:
		return e.Cause
	case e.Code == 128+int(syscall.SIGKILL) && sb.group.OOMKills() > 0:
		return sandbox.OOMKilled // the command itself, or the child for which it took this code
	}
	return e.Cause
}

// Start hands the command to init.
func (sb *instance) Start(ctx context.Context, c sandbox.Command) error {
	sb.attachMu.Lock()
	defer sb.attachMu.Unlock()
	err := sb.conn.Start(ctx, c)
	if err != nil && ctx.Err() != nil {
		// Whether it has started or not, it must not go on.
		if kerr := sb.process.Kill(); !errors.Is(kerr, os.ErrProcessDone) {
			err = errors.Join(err, kerr)
		}
	}
	return err
}

// Wait waits for the command's end.
func (sb *instance) Wait(ctx context.Context) (sandbox.Exit, error) { return sb.conn.Wait(ctx) }

// Kill ends everything inside.
func (sb *instance) Kill(ctx context.Context, grace time.Duration) error {
	if sb.process == nil {
		return nil
	}
	sb.conn.MarkKilled()
	if grace > 0 && sb.conn.Started() {
		sb.conn.Terminate(ctx, grace)
	}
	if err := sb.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing sandbox: %w", err)
	}
	select {
	case <-sb.conn.Gone(): // the kernel lets a PID namespace's first process end last
		return nil
	case <-ctx.Done():
		return fmt.Errorf("killing sandbox: %w", context.Cause(ctx))
	}
}

// Close kills, and gives back all that Prepare took.
func (sb *instance) Close(ctx context.Context) error {
	sb.closeMu.Lock()
	defer sb.closeMu.Unlock()
	if sb.closed {
		return nil
	}
	if err := sb.Kill(ctx, 0); err != nil {
		return err
	}
	var errs []error
	if sb.process == nil && sb.conn != nil {
		sb.conn.Close()
	}
	sb.goroutines.Wait()
	if sb.group != nil {
		errs = append(errs, sb.group.Close(ctx))
	}
	if sb.stderr != nil {
		sb.stderr.Close()
	}
	if sb.lifeline != nil {
		sb.lifeline.Close()
	}
	if sb.hasRange {
		sb.driver.ranges.release(sb.slot)
		sb.hasRange = false
	}
	errs = append(errs, sb.driver.dropRecord(sb.spec.ID), sb.removeWorkDirs(0))
	if sb.conn != nil {
		errs = append(errs, sb.conn.WaitOutput(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing sandbox: %w", err)
	}
	sb.closed = true
	sb.driver.unregister(sb.spec.ID)
	return nil
}
