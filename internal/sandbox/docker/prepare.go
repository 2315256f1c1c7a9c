//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/moby/client"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
)

// Prepare makes a container whose warden waits for the command.
func (d *Driver) Prepare(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := d.admit(s.ID); err != nil {
		return nil, err
	}
	b := &box{driver: d, spec: s, limits: s.Resources}
	err := b.prepare(ctx)
	if err == nil {
		return b, nil
	}
	// What was made so far must go, even if the caller has no more patience.
	if cerr := b.Close(context.WithoutCancel(ctx)); cerr != nil {
		d.log.Warn("a sandbox that could not be prepared was not removed", "sandbox", s.ID, "error", cerr)
	}
	return nil, err
}

func (b *box) prepare(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("preparing sandbox: %w", context.Cause(ctx))
	}
	d, dir := b.driver, b.driver.boxDir(b.spec.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	door, err := d.openDoor(filepath.Join(dir, "door"))
	if err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	defer func() { _ = door.listener.Close() }() // it may be closed already
	if err := b.startContainer(ctx, dir); err != nil {
		return wrap("preparing sandbox", err)
	}
	call, err := door.await(ctx, b.alive)
	if err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	if err := b.adopt(call); err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	// The container has mounts of its own by now, and the warden is in.
	if err := errors.Join(door.close(), detach(filepath.Join(dir, mountDir))); err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	if err := b.brief(ctx); err != nil {
		return fmt.Errorf("preparing sandbox: %w", err)
	}
	return nil
}

// wrap keeps a sentence for the user as it is.
func wrap(doing string, err error) error {
	if _, ok := errors.AsType[*sandbox.Error](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// commandPatience bounds what the daemon is told to do. It is not told to stop
// half-way, as it would not say what it has made: ctx is looked at in between.
const commandPatience = time.Minute

func (b *box) startContainer(ctx context.Context, dir string) error {
	d := b.driver
	root, err := d.root(ctx, b.spec.Image)
	if err != nil {
		return err
	}
	if err := b.readyUppers(); err != nil {
		return err
	}
	own, err := callers(b.spec, root.system)
	if err != nil {
		return err
	}
	for _, o := range own {
		b.writable = append(b.writable, o.measured()...)
	}
	list := []bind{{source: filepath.Join(dir, "door"), target: doorDir}}
	for _, s := range root.binds {
		if !slices.ContainsFunc(own, func(o bind) bool { return o.target == s.target }) {
			list = append(list, s) // else the caller's lies over it
		}
	}
	list = append(list, own...)
	mounts, err := d.attach(filepath.Join(dir, mountDir), list)
	if err != nil {
		return err
	}
	if err := b.countOverlays(filepath.Join(dir, mountDir), list); err != nil {
		return err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandPatience)
	defer cancel()
	b.created = true
	made, err := d.client.ContainerCreate(whole, d.containerOptions(b.spec, root.image, mounts))
	if err != nil {
		return fmt.Errorf("making the container: %w", err)
	}
	b.container = made.ID
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := d.client.ContainerStart(whole, b.container, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting the container: %w", err)
	}
	return nil
}

// alive asks the daemon whether the container still runs, and if not, why.
func (b *box) alive(ctx context.Context) error {
	got, err := b.driver.client.ContainerInspect(ctx, b.container, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("asking for the container: %w", err)
	}
	if s := got.Container.State; s != nil && !s.Running {
		return fmt.Errorf("the container's first process ended with code %d: %s", s.ExitCode, s.Error)
	}
	return nil
}

// adopt begins the session with the warden that called.
func (b *box) adopt(c *call) error {
	b.process = c.process
	b.disk.Proc = fmt.Sprintf("/proc/%d/root/proc", c.pid) // the container's own view: nobody else's processes
	var err error
	b.group, err = cgroup.Observe("", c.pid, b.container)
	if err == nil && b.spec.Network {
		b.network, err = captureNetwork(c.pid)
	}
	if err != nil {
		_ = c.conn.Close() // which ends the warden
		return err
	}
	b.session = control.New(c.conn, control.Config{Owner: b.driver.daemon.agent(), Judge: b.judge, Watch: b.watch})
	b.work.Go(func() { b.session.Listen(b.bury) })
	return nil
}

// brief gives the warden its terms.
func (b *box) brief(ctx context.Context) error {
	paper, err := control.MemoryFile("terms", &b.driver.terms)
	if err != nil {
		return err
	}
	defer paper.Close()
	silent := func() string { return "it said nothing" }
	_, err = b.session.Ask(ctx, agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, silent, paper)
	return err
}
