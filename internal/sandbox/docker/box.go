//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/sandbox/diskusage"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// box is one sandbox, seen from outside.
type box struct {
	driver    *Driver
	spec      sandbox.Spec
	created   bool   // the daemon was told to make the container
	container string // the daemon's ID of it
	writable  []string
	uppers    []string         // whose work folders are ours
	session   *control.Session // nil until the warden called
	process   *os.File         // the warden's pidfd
	group     *cgroup.Group
	network   *sandbox.Network
	disk      diskusage.Meter
	work      sync.WaitGroup // the listener

	closing  sync.Mutex // held by the one Close, Attach or Usage that works
	closed   bool
	attached bool

	mu      sync.Mutex // guards what follows
	limits  sandbox.Resources
	full    bool         // killed for its disk limit
	weighed bool         // the folders were measured after the end
	last    cgroup.Usage // latest sample, for when the daemon has removed the group
}

// ID is the spec's.
func (b *box) ID() string { return b.spec.ID }

// Network is the far end, where the spec asked for one.
func (b *box) Network() *sandbox.Network { return b.network }

// Attach changes the limits; a container takes no more mounts.
func (b *box) Attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	if len(mounts) > 0 {
		return sandbox.ErrAttach
	}
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.closed || b.attached || b.session.Started() {
		return fmt.Errorf("%w: it was given more, started or closed already", sandbox.ErrAttach)
	}
	was := b.resources()
	// The daemon cannot take limits away.
	if r.CPU == 0 && was.CPU > 0 || r.Memory == 0 && was.Memory > 0 || r.Pids == 0 && was.Pids > 0 {
		return sandbox.ErrAttach
	}
	limits := resources(r)
	if _, err := b.driver.client.ContainerUpdate(ctx, b.container, client.ContainerUpdateOptions{Resources: &limits}); err != nil {
		return fmt.Errorf("setting the container's limits: %w", err)
	}
	b.attached = true
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits = r
	return nil
}

func (b *box) resources() sandbox.Resources {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limits
}

// bury ends the warden, which has closed its socket, and waits for it: the
// kernel lets a PID namespace's first process end last.
func (b *box) bury() {
	err := b.signal()
	if err == nil {
		err = b.control(awaitEnd)
	}
	if err != nil {
		b.driver.log.Warn("killing a sandbox failed", "sandbox", b.spec.ID, "error", err)
	}
	_, _ = b.observe() // the last look, if the daemon has not yet removed the group
	b.hangUp()
}

// awaitEnd waits until the process of a descriptor has ended.
func awaitEnd(pidfd int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return err
		}
	}
}

// hangUp ends the network, for those who still accept from it and because its
// sockets keep it alive.
func (b *box) hangUp() {
	if b.network != nil {
		_ = b.network.TCP.Close() // whoever took it may have closed it
		_ = b.network.DNS.Close()
	}
}

// signal kills the warden, and with it all.
func (b *box) signal() error {
	err := b.control(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	select {
	case <-b.session.Gone(): // and its descriptor may be closed
		return nil
	default:
		return err
	}
}

// control calls with the warden's descriptor, which stays open meanwhile.
func (b *box) control(call func(fd int) error) error {
	raw, err := b.process.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = call(int(fd)) })
	return errors.Join(cerr, err)
}

// judge knows what the warden cannot.
func (b *box) judge(e sandbox.Exit, killed bool) sandbox.Cause {
	b.mu.Lock()
	full := b.full
	b.mu.Unlock()
	switch {
	case full && e.Cause == sandbox.Lost:
		return sandbox.DiskFull
	case e.Cause == sandbox.Lost && killed:
		return sandbox.Killed
	case e.Cause == sandbox.Killed:
		return e.Cause
	case e.Code == 128+int(syscall.SIGKILL) && b.starved(e):
		return sandbox.OOMKilled // the command itself, the child for which it took this code, or the warden
	}
	return e.Cause
}

// starved tells whether the kernel has killed for memory.
func (b *box) starved(e sandbox.Exit) bool {
	if u, _ := b.observe(); u.OOMKills > 0 {
		return true
	}
	if e.Cause != sandbox.Lost {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	got, err := b.driver.client.ContainerInspect(ctx, b.container, client.ContainerInspectOptions{})
	return err == nil && got.Container.State != nil && got.Container.State.OOMKilled
}

// Start hands the command to the warden.
func (b *box) Start(ctx context.Context, c sandbox.Command) error {
	err := b.session.Start(ctx, c)
	if err != nil && ctx.Err() != nil {
		// Whether it has started or not, it must not go on.
		err = errors.Join(err, b.signal())
	}
	return err
}

// Wait waits for the command's end.
func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) { return b.session.Wait(ctx) }

// Kill ends everything inside. The daemon is not asked: a signal is quicker,
// and needs no daemon that answers.
func (b *box) Kill(ctx context.Context, grace time.Duration) error {
	if b.session == nil {
		return nil
	}
	b.session.Refuse()
	if grace > 0 && b.session.Started() {
		b.session.Terminate(ctx, grace)
	}
	_, _ = b.observe() // the daemon removes the group after the end
	if err := b.signal(); err != nil {
		return fmt.Errorf("killing sandbox: %w", err)
	}
	select {
	case <-b.session.Gone():
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
	b.work.Wait()
	var errs []error
	b.hangUp()
	if b.created {
		errs = append(errs, b.driver.removeContainer(ctx, b.driver.containerName(b.spec.ID)))
	}
	errs = append(errs, b.driver.removeBox(b.spec.ID))
	for _, upper := range b.uppers {
		errs = append(errs, overlay.Drop(upper))
	}
	if b.session != nil {
		errs = append(errs, b.session.Settle(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing sandbox: %w", err)
	}
	if b.process != nil {
		b.process.Close()
	}
	b.closed = true
	b.driver.dismiss(b.spec.ID)
	return nil
}

// removePatience bounds how long the daemon may be busy with a container that
// is to be removed. It waits itself for ten seconds until the container has
// ended, and then refuses.
const removePatience = 30 * time.Second

// removeContainer removes a container that may be there or not, dead or alive.
// The daemon refuses for a moment when it is just noticing the container's end,
// or somebody else's removal goes on.
func (d *Driver) removeContainer(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	deadline := time.Now().Add(removePatience)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := d.client.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || cerrdefs.IsNotFound(err):
			return nil
		case client.IsErrConnectionFailed(err), time.Now().After(deadline):
			return fmt.Errorf("removing the container: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("removing the container: %w", err)
		}
	}
}
