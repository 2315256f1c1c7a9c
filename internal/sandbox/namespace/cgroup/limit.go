package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/stint-dev/stint/internal/sandbox"
)

// period is the period of CPU quotas in microseconds, the kernel's default.
const period = 100_000

// Limit changes the limits of a group after Join. If the memory limit is below the
// current usage and cannot be reached by reclaiming memory, cgroup v1 returns an
// error, and v2 kills processes.
func (g *Group) Limit(l sandbox.Resources) error {
	g.limits = l
	if g.v2Dir != "" {
		if err := g.limitV2(); err != nil {
			return err
		}
	}
	for _, h := range g.parent.v1Trees {
		dir := filepath.Join(h.dir, g.id)
		if !slices.Contains(g.v1Dirs, dir) {
			continue
		}
		if err := g.limitV1(dir, h.controllers); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) limitV2() error {
	swap := "0"
	if g.limits.Memory <= 0 {
		swap = "max"
	}
	for _, f := range []struct {
		controller, file, value string
		write                   func(dir, file, value string) error
	}{
		{"memory", "memory.max", valueOr(g.limits.Memory, "max"), write},
		{"memory", "memory.swap.max", swap, writeIfExists},
		{"pids", "pids.max", valueOr(g.limits.Pids, "max"), write},
		{"cpu", "cpu.max", quotaOr(g.limits.CPU, "max") + " " + strconv.Itoa(period), write},
	} {
		if !slices.Contains(g.parent.v2.controllers, f.controller) {
			continue
		}
		if err := f.write(g.v2Dir, f.file, f.value); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) limitV1(dir string, controllers []string) error {
	for _, c := range controllers {
		var err error
		switch c {
		case "memory":
			err = limitMemoryV1(dir, valueOr(g.limits.Memory, "-1"))
		case "cpu":
			if err = write(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err == nil {
				err = write(dir, "cpu.cfs_quota_us", quotaOr(g.limits.CPU, "-1"))
			}
		case "pids":
			err = write(dir, "pids.max", valueOr(g.limits.Pids, "max"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitMemoryV1 sets the limit of memory and the limit of memory plus swap, if it
// exists. The second must never be below the first, so the order of the writes
// depends on whether the limits are raised or lowered.
func limitMemoryV1(dir, bytes string) error {
	const memory, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(dir, both)); errors.Is(err, fs.ErrNotExist) {
		return write(dir, memory, bytes)
	}
	err := write(dir, memory, bytes)
	if errors.Is(err, syscall.EINVAL) {
		if err = write(dir, both, bytes); err == nil {
			return write(dir, memory, bytes)
		}
	}
	if err != nil {
		return err
	}
	return write(dir, both, bytes)
}

// valueOr returns n as text, or unlimited if n is not positive.
func valueOr(n int64, unlimited string) string {
	if n <= 0 {
		return unlimited
	}
	return strconv.FormatInt(n, 10)
}

// quotaOr returns the CPU quota in microseconds per period, at least the kernel's
// minimum of 1 ms, or unlimited if cores is not positive.
func quotaOr(cores float64, unlimited string) string {
	if cores <= 0 {
		return unlimited
	}
	return strconv.FormatInt(max(int64(cores*period), 1000), 10)
}
