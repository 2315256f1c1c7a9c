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

// instance is the host's side of one sandbox.
type instance struct {
	driver     *Driver
	spec       sandbox.Spec
	ids        assignedIDs
	system     []layout.Entry // entries of the host's system or the image that the root shows
	process    *os.Process    // init
	conn       *control.Conn
	group      *cgroup.Group
	stderr     *os.File         // file in memory that is init's stderr
	lifeline   *os.File         // pipe; init exits when this end closes; nil without a user-space kernel
	network    *sandbox.Network // nil if the spec does not request one
	disk       diskusage.Scanner
	goroutines sync.WaitGroup // conn.Listen, and closing the network

	attachMu sync.Mutex // held by Attach and Start; guards the fields below
	attached bool
	mounts   []setup.Mount // mounts of Prepare and Attach

	closeMu sync.Mutex // held by Close; guards closed
	closed  bool

	state instanceState
}

// assignedIDs is the range of user IDs of a sandbox. It is zero if the server does
// not run as root.
type assignedIDs struct {
	slot     int      // number of the range
	reserved bool     // slot is reserved for this sandbox
	userns   *os.File // maps the server's user to the agent; owned by the driver
}

// instanceState is the state of a sandbox that changes while it runs.
type instanceState struct {
	mu             sync.Mutex // guards the fields below
	limits         sandbox.Resources
	writable       []string      // writable host folders
	uppers         []string      // upper folders with a work folder
	diskExceeded   bool          // killed for its disk limit
	memoryExceeded bool          // killed for its memory limit, if no control group enforces it
	finalScanDone  bool          // isFinalScan has returned true
	lastSample     cgroup.Usage  // maxima of the sums over all processes, if control groups do not count
	cpuAtExit      time.Duration // CPU time of all processes; 0 until init has ended
}

// ID returns the spec's ID.
func (sb *instance) ID() string { return sb.spec.ID }

// Network returns the captured network, or nil if the spec does not request one.
func (sb *instance) Network() *sandbox.Network { return sb.network }

// limitsAndDirs returns the current limits and the writable folders on the
// host.
func (sb *instance) limitsAndDirs() (sandbox.Resources, []string) {
	sb.state.mu.Lock()
	defer sb.state.mu.Unlock()
	return sb.state.limits, sb.state.writable
}

// killInit kills init, which ends all processes of the sandbox. It logs a failure.
func (sb *instance) killInit() {
	if err := sb.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		sb.driver.log.Warn("killing a sandbox failed", "sandbox", sb.spec.ID, "error", err)
	}
}

// killAndReap kills init, in case it is still running after its socket was
// closed, and reaps it.
func (sb *instance) killAndReap() {
	sb.killInit()
	state, err := sb.process.Wait()
	if err == nil {
		sb.state.mu.Lock()
		sb.state.cpuAtExit = state.UserTime() + state.SystemTime()
		sb.state.mu.Unlock()
	}
}

// cause returns the cause of an exit. The cause in e is only derived from the exit
// status and from OpTerm: init does not know about limits and SIGKILL.
func (sb *instance) cause(e sandbox.Exit, killed bool) sandbox.Cause {
	sb.state.mu.Lock()
	defer sb.state.mu.Unlock()
	switch {
	case sb.state.diskExceeded && e.Cause == sandbox.Lost:
		return sandbox.DiskFull
	case sb.state.memoryExceeded && e.Cause == sandbox.Lost:
		return sandbox.OOMKilled
	case e.Cause == sandbox.Lost && killed:
		return sandbox.Killed
	case e.Cause == sandbox.Killed:
		return e.Cause
	case e.Code == 128+int(syscall.SIGKILL) && sb.group.OOMKills() > 0:
		return sandbox.OOMKilled // the kernel killed the command, or a child, and the command returned the child's exit code
	}
	return e.Cause
}

// Start sends the command to init.
func (sb *instance) Start(ctx context.Context, c sandbox.Command) error {
	sb.attachMu.Lock()
	defer sb.attachMu.Unlock()
	err := sb.conn.Start(ctx, c)
	if err != nil && ctx.Err() != nil {
		// The command may have been started, so the sandbox must be killed.
		sb.killInit()
	}
	return err
}

// Wait returns after the command has ended and its output was written.
func (sb *instance) Wait(ctx context.Context) (sandbox.Exit, error) { return sb.conn.Wait(ctx) }

// Kill ends all processes in the sandbox. If grace is positive and a command was
// started, it first sends SIGTERM and waits up to grace.
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
	case <-sb.conn.Gone(): // the first process of a PID namespace is reaped last
		return nil
	case <-ctx.Done():
		return fmt.Errorf("killing sandbox: %w", context.Cause(ctx))
	}
}

// Close kills the sandbox and releases all its resources except the caller's
// folders. After an error, it can be called again.
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
	if sb.ids.reserved {
		sb.driver.ranges.release(sb.ids.slot)
		sb.ids.reserved = false
	}
	errs = append(errs, sb.driver.dropRecord(sb.spec.ID), sb.removeWorkDirs(0))
	if sb.conn != nil {
		errs = append(errs, sb.conn.WaitOutput(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing sandbox: %w", err)
	}
	sb.closed = true
	sb.driver.live.Delete(sb.spec.ID)
	return nil
}
