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
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
)

// box is one sandbox, seen from outside.
type box struct {
	driver   *Driver
	spec     sandbox.Spec
	slot     int
	ranged   bool // slot is reserved
	writable []string
	process  *os.Process
	link     *link
	group    *cgroup.Group
	words    *os.File // init's stderr
	disk     meter

	said  chan inside.Message // init's answers to Prepare and Start
	empty chan struct{}       // closed when only init lives
	gone  chan struct{}       // closed when nothing lives
	done  chan struct{}       // closed when the command ended and its output was delivered
	work  sync.WaitGroup

	closing sync.Mutex // held by the one Close that works
	closed  bool

	mu      sync.Mutex // guards what follows
	started bool       // Start was called
	streams []*stream
	killed  bool
	full    bool // killed for its disk limit
	starved bool // killed for its memory limit, where no group holds it
	weighed bool // the folders were measured after the end
	ended   bool
	exit    sandbox.Exit
	last    cgroup.Usage // latest sample by process, where groups do not count
	spent   time.Duration
}

func newBox(d *Driver, s sandbox.Spec) *box {
	return &box{
		driver: d, spec: s,
		said:  make(chan inside.Message, 2), // one answer to Prepare, one to Start: the monitor never waits
		empty: make(chan struct{}),
		gone:  make(chan struct{}),
		done:  make(chan struct{}),
	}
}

// ID is the spec's.
func (b *box) ID() string { return b.spec.ID }

// monitor listens to init until it has ended, and reaps it.
func (b *box) monitor() {
	defer close(b.gone)
	for {
		m, err := b.link.receive()
		if err != nil {
			break // the socket closes with init
		}
		switch m.Op {
		case inside.OpExit:
			b.finish(exitOf(m))
		case inside.OpEmpty:
			close(b.empty)
		default:
			b.said <- m
		}
	}
	// An open socket without init, or the reverse, cannot be; were it, this
	// ends it.
	if err := b.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.driver.log.Warn("killing a sandbox failed", "sandbox", b.spec.ID, "error", err)
	}
	state, err := b.process.Wait()
	if err == nil {
		b.mu.Lock()
		b.spent = state.UserTime() + state.SystemTime()
		b.mu.Unlock()
	}
	_ = b.link.conn.Close()
	b.finish(sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL), Cause: sandbox.Lost})
}

func exitOf(m inside.Message) sandbox.Exit {
	e := sandbox.Exit{Code: m.Code, Signal: m.Signal, Cause: sandbox.Exited}
	switch {
	case m.Killed:
		e.Cause = sandbox.Killed
	case m.Signal != 0:
		e.Cause = sandbox.Signalled
	}
	return e
}

// finish settles how the command ended; the first call counts. Then what it
// wrote before is delivered, and Wait is let go.
func (b *box) finish(e sandbox.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	if !b.started {
		return
	}
	b.exit = e
	b.exit.Cause = b.causeOf(e)
	streams := b.streams
	for _, s := range streams {
		s.conclude()
	}
	b.work.Go(func() {
		for _, s := range streams {
			<-s.delivered
		}
		close(b.done)
	})
}

// causeOf knows what init cannot: b.mu is held.
func (b *box) causeOf(e sandbox.Exit) sandbox.Cause {
	switch {
	case b.full && e.Cause == sandbox.Lost:
		return sandbox.DiskFull
	case b.starved && e.Cause == sandbox.Lost:
		return sandbox.OOMKilled
	case e.Cause == sandbox.Lost && b.killed:
		return sandbox.Killed
	case e.Cause == sandbox.Killed:
		return e.Cause
	case e.Code == 128+int(syscall.SIGKILL) && b.group.OOMKills() > 0:
		return sandbox.OOMKilled // the command itself, or the child for which it took this code
	}
	return e.Cause
}

// Wait waits for the command's end.
func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	b.mu.Lock()
	started := b.started
	b.mu.Unlock()
	if !started {
		return sandbox.Exit{}, errors.New("namespace: Wait before Start")
	}
	select {
	case <-b.done:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("waiting for sandbox: %w", context.Cause(ctx))
	}
}

// Kill ends everything inside.
func (b *box) Kill(ctx context.Context, grace time.Duration) error {
	if b.process == nil {
		return nil
	}
	b.mu.Lock()
	b.killed = true
	running := b.started
	b.mu.Unlock()
	if grace > 0 && running {
		b.terminate(ctx, grace)
	}
	if err := b.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing sandbox: %w", err)
	}
	select {
	case <-b.gone: // the kernel lets a PID namespace's first process end last
		return nil
	case <-ctx.Done():
		return fmt.Errorf("killing sandbox: %w", context.Cause(ctx))
	}
}

// terminate asks all inside to end, and waits until they have or their time is
// up.
func (b *box) terminate(ctx context.Context, grace time.Duration) {
	if err := b.link.send(inside.Message{Op: inside.OpTerm}); err != nil {
		return // init has ended
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-b.empty:
	case <-b.gone:
	case <-timer.C:
	case <-ctx.Done():
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
	if b.process == nil && b.link != nil {
		_ = b.link.conn.Close() // else the monitor has
	}
	if b.group != nil {
		errs = append(errs, b.group.Close(ctx))
	}
	if b.words != nil {
		b.words.Close()
	}
	if b.ranged {
		b.driver.ranges.release(b.slot)
		b.ranged = false
	}
	errs = append(errs, b.driver.dropRecord(b.spec.ID), b.settle(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing sandbox: %w", err)
	}
	b.closed = true
	b.driver.dismiss(b.spec.ID)
	return nil
}

// settle waits for the goroutines of this sandbox. Only a writer of the caller
// that does not return can hold one up.
func (b *box) settle(ctx context.Context) error {
	idle := make(chan struct{})
	go func() {
		b.work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("delivering output: %w", context.Cause(ctx))
	}
}
