package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Limit changes the limits of a joined group. A memory limit below the current
// usage is refused.
func (g *Group) Limit(l Limits) error {
	g.limits = l
	if u := g.parent.v2; u != nil && g.v2Dir != "" {
		if err := g.updateV2(u.controllers); err != nil {
			return err
		}
	}
	for _, h := range g.parent.v1Trees {
		dir := filepath.Join(h.dir, g.id)
		if !slices.Contains(g.v1Dirs, dir) {
			continue
		}
		for _, c := range h.controllers {
			if err := g.updateV1(dir, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Group) updateV2(controllers []string) error {
	l := g.limits
	for _, f := range []struct{ controller, file, value string }{
		{"memory", "memory.max", valueOrMax(l.Memory)},
		{"pids", "pids.max", valueOrMax(l.Pids)},
		{"cpu", "cpu.max", quotaOr(l.CPU, "max") + " " + strconv.Itoa(period)},
	} {
		if !slices.Contains(controllers, f.controller) {
			continue
		}
		if err := write(g.v2Dir, f.file, f.value); err != nil {
			return err
		}
	}
	if !slices.Contains(controllers, "memory") {
		return nil
	}
	swap := "0"
	if l.Memory <= 0 {
		swap = "max"
	}
	return writeIfExists(g.v2Dir, "memory.swap.max", swap)
}

func (g *Group) updateV1(dir, controller string) error {
	switch controller {
	case "memory":
		return updateMemoryV1(dir, valueOrMinusOne(g.limits.Memory))
	case "cpu":
		if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
			return err
		}
		return write(dir, "cpu.cfs_quota_us", quotaOr(g.limits.CPU, "-1"))
	case "pids":
		return write(dir, "pids.max", valueOrMax(g.limits.Pids))
	}
	return nil
}

// updateMemoryV1 sets both memory limits. The limit of memory plus swap must
// never be below the limit of memory, so the order depends on the direction of
// the change.
func updateMemoryV1(dir, bytes string) error {
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

func valueOrMax(n int64) string {
	if n <= 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func valueOrMinusOne(n int64) string {
	if n <= 0 {
		return "-1"
	}
	return strconv.FormatInt(n, 10)
}

func quotaOr(cores float64, unlimited string) string {
	if cores <= 0 {
		return unlimited
	}
	return quota(cores)
}
