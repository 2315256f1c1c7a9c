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

// Group contains the processes of one sandbox. After Join, its methods may be called
// from several goroutines. After the first call of Close, only Close may be called.
type Group struct {
	parent *Parent
	id     string
	limits sandbox.Resources // without Disk
	v2Dir  string            // folder in the v2 hierarchy; empty if v2 cannot be used
	fd     *os.File          // open v2Dir, for starting a process in the group
	v1Dirs []string          // folders in v1 hierarchies, created by Join
}

// Create returns a group with the limits l. If cgroup v2 can be used, it creates
// the group's v2 folder, so that a process can be started in the group. Join creates
// the v1 folders and adds the process to them.
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
		// If a sandbox runs out of memory, the kernel kills all its processes:
		// an incomplete agent is useless, and the cause can be reported.
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

// FD returns the descriptor of the v2 folder, for starting a process in the group.
// It returns false if v2 cannot be used.
func (g *Group) FD() (int, bool) {
	if g.fd == nil {
		return -1, false
	}
	return int(g.fd.Fd()), true
}

// Join adds a process to the v1 groups. If FD returns a descriptor, the process must
// have been started in this v2 group. It must not have children yet, because they
// would not be added.
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

// writeIfExists writes a control file if it exists. The files for swap exist only on
// kernels with swap accounting.
func writeIfExists(dir, file, value string) error {
	if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return write(dir, file, value)
}

// controllerDir returns the group's folder for a controller. unified reports whether
// the folder is in the v2 hierarchy. ok is false if the group does not use the
// controller.
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

// Close removes the group. Its processes must have ended. The kernel may count them
// for some time after their end; ctx and removeTimeout limit the wait.
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

// removeTimeout is the maximum time of a removal. It allows for a busy machine and
// for processes that release much memory.
const removeTimeout = 10 * time.Second

// remove removes a group with rm. It retries while the kernel still counts ended
// processes (EBUSY).
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
