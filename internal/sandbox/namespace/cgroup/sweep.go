package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Sweep kills the processes of all groups in this parent's folders and in earlier,
// the folders that Dirs returned in earlier processes, and removes these groups. It
// also removes the folders in earlier that are not this parent's.
func (p *Parent) Sweep(ctx context.Context, earlier []string) error {
	own := map[string]bool{}
	for _, dir := range p.Dirs() {
		own[dir] = true
	}
	var errs []error
	for _, dir := range append(p.Dirs(), earlier...) {
		if !strings.HasPrefix(filepath.Base(dir), "stint-") {
			continue // not a folder of a Parent
		}
		errs = append(errs, p.sweepDir(ctx, dir))
		if !own[dir] {
			errs = append(errs, remove(ctx, p.remove, dir))
		}
	}
	return errors.Join(errs...)
}

func (p *Parent) sweepDir(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup: sweeping: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		group := filepath.Join(dir, e.Name())
		if err := kill(group); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, remove(ctx, p.remove, group))
	}
	return errors.Join(errs...)
}

// kill kills all processes of a group: at once if the kernel has cgroup.kill, and
// one by one otherwise. One pass is sufficient, because the kernel ends all
// processes of a sandbox when its first process ends.
func kill(dir string) error {
	switch _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); {
	case err == nil:
		return write(dir, "cgroup.kill", "1")
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cgroup: killing group: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup: killing group: %w", err)
	}
	for s := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(s)
		if err != nil || pid <= 1 {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cgroup: killing process %d: %w", pid, err)
		}
	}
	return nil
}
