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

// Sweep kills and removes all groups in the folders of earlier processes, which
// their Dirs returned, and in this parent's folders. It also removes the
// folders of earlier processes.
func (p *Parent) Sweep(ctx context.Context, earlier []string) error {
	own := map[string]bool{}
	for _, dir := range p.Dirs() {
		own[dir] = true
	}
	var errs []error
	for _, dir := range append(p.Dirs(), earlier...) {
		if !strings.HasPrefix(filepath.Base(dir), "stint-") {
			continue // not one of our folders
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

// kill kills all processes of a group, at once if the kernel supports it and
// one by one otherwise. One round is sufficient, because all processes of a
// sandbox end with its first.
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
