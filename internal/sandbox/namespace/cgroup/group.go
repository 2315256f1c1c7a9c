package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Group contains the processes of one sandbox. Its methods may be called from
// several goroutines, Close last.
type Group struct {
	parent *Parent
	id     string
	limits sandbox.Resources // without Disk
	v2Dir  string            // in the v2 hierarchy; empty without one
	fd     *os.File          // of v2Dir, for starting a process in it
	v1Dirs []string          // folders in v1 hierarchies, created by Join
}

// Create creates the v2 group, if there is one, with its limits, so that a
// process can be started in it. Join does the rest after the process was
// started.
func (p *Parent) Create(id string, l sandbox.Resources) (*Group, error) {
	g := &Group{parent: p, id: id, limits: l}
	if p.v2 == nil {
		return g, nil
	}
	g.v2Dir = filepath.Join(p.v2.dir, id)
	if err := os.Mkdir(g.v2Dir, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup: creating group: %w", err)
	}
	err := g.limitV2()
	if err == nil && slices.Contains(p.v2.controllers, "memory") {
		// A sandbox that runs out of memory is killed as a whole: a partial
		// agent is useless, and the cause can be reported.
		err = write(g.v2Dir, "memory.oom.group", "1")
	}
	if err == nil {
		g.fd, err = os.Open(g.v2Dir)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close(context.Background()))
	}
	return g, nil
}

// FD returns the descriptor of the v2 group's folder for starting a process in
// it, and false without v2.
func (g *Group) FD() (int, bool) {
	if g.fd == nil {
		return -1, false
	}
	return int(g.fd.Fd()), true
}

// Join adds a process to the v1 groups. It must have been started in FD's
// group, if there is one, and must not have children yet; they would not be
// added.
func (g *Group) Join(pid int) error {
	for _, h := range g.parent.v1Trees {
		dir := filepath.Join(h.dir, g.id)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("cgroup: creating group: %w", err)
		}
		g.v1Dirs = append(g.v1Dirs, dir)
		if err := g.limitV1(dir, h.controllers); err != nil {
			return err
		}
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// writeIfExists writes a file that exists only on kernels with swap accounting.
func writeIfExists(dir, file, value string) error {
	if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return write(dir, file, value)
}

// controllerDir returns the group's folder for a controller.
func (g *Group) controllerDir(controller string) (dir string, unified, ok bool) {
	if h := g.parent.v1[controller]; h != nil {
		dir = filepath.Join(h.dir, g.id)
		return dir, false, slices.Contains(g.v1Dirs, dir)
	}
	if u := g.parent.v2; u != nil && g.v2Dir != "" && slices.Contains(u.controllers, controller) {
		return g.v2Dir, true, true
	}
	return "", false, false
}

// Close removes the group. Its processes must have ended. The kernel may need
// some time to notice; ctx and removeTimeout limit the wait.
func (g *Group) Close(ctx context.Context) error {
	if g.fd != nil {
		g.fd.Close()
	}
	var errs []error
	for _, dir := range g.dirs() {
		errs = append(errs, remove(ctx, g.parent.remove, dir))
	}
	return errors.Join(errs...)
}

func (g *Group) dirs() []string {
	if g.v2Dir == "" {
		return g.v1Dirs
	}
	return append([]string{g.v2Dir}, g.v1Dirs...)
}

// removeTimeout allows for a busy machine and for processes that release much
// memory.
const removeTimeout = 10 * time.Second

// remove retries while the kernel still counts ended processes.
func remove(ctx context.Context, rm func(string) error, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := rm(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("cgroup: removing group: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("cgroup: removing group: %w", err)
		}
	}
}
