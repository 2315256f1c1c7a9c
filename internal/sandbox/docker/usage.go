//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/diskusage"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
)

// Usage reads the group's counters. Disk is as of the last look, at most a few
// seconds ago.
func (b *box) Usage(context.Context) (sandbox.Usage, error) {
	s, err := b.living()
	if err != nil {
		return sandbox.Usage{}, err
	}
	r := b.resources()
	u := sandbox.Usage{
		CPU: s.CPU, Memory: s.Memory, MemoryPeak: s.MemoryPeak, MemoryLimit: r.Memory,
		Disk: b.measure(b.final()), DiskLimit: r.Disk,
		Pids: s.Pids, OOMKills: s.OOMKills,
	}
	if u.MemoryLimit == 0 {
		u.MemoryLimit = b.driver.memory
	}
	if u.DiskLimit == 0 {
		u.DiskLimit = diskusage.FileSystem(b.spec.Workspace)
	}
	return u, nil
}

// living samples a sandbox that is not closed.
func (b *box) living() (cgroup.Usage, error) {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.closed {
		return cgroup.Usage{}, errors.New("docker: Usage after Close")
	}
	u, err := b.observe()
	if err != nil {
		return u, fmt.Errorf("reading usage: %w", err)
	}
	return u, nil
}

// measure looks at the folders if that is due, or for the last time. It holds up
// nobody: the agent decides how much there is to look at.
func (b *box) measure(final bool) int64 {
	l := diskusage.Look{Dirs: b.writable, Limit: b.resources().Disk, Interval: b.driver.c.DiskInterval, Now: final, Stop: b.session.Gone()}
	if final {
		l.Stop = nil
	}
	return b.disk.Read(l)
}

// observe takes a sample. After the end the daemon removes the group; then the
// last one stands, in which nothing lives any more.
func (b *box) observe() (cgroup.Usage, error) {
	gone := false
	select {
	case <-b.session.Gone():
		gone = true
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.group.Usage()
	if err != nil {
		if !gone && b.last == (cgroup.Usage{}) {
			return u, err
		}
		u = b.last
	}
	if gone {
		u.Memory, u.Pids = 0, 0
	}
	u.MemoryPeak = max(u.MemoryPeak, b.last.MemoryPeak, u.Memory)
	u.CPU, u.OOMKills = max(u.CPU, b.last.CPU), max(u.OOMKills, b.last.OOMKills)
	b.last = u
	return u, nil
}

// final tells, once, that nothing changes any more.
func (b *box) final() bool {
	select {
	case <-b.session.Gone():
	default:
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.weighed
	b.weighed = true
	return first
}

// watch kills the sandbox when it is over its limit on disk, which nobody
// enforces for us, until the command has ended.
func (b *box) watch() {
	limit := b.resources().Disk
	if limit <= 0 {
		return
	}
	for {
		timer := time.NewTimer(b.disk.Wait(b.driver.c.DiskInterval))
		select {
		case <-b.session.Done():
			timer.Stop()
			return
		case <-b.session.Gone():
			timer.Stop()
			return
		case <-timer.C:
		}
		if b.measure(false) > limit {
			b.mu.Lock()
			b.full = true
			b.mu.Unlock()
			_, _ = b.observe() // the daemon removes the group after the end
			if err := b.signal(); err != nil {
				b.driver.log.Warn("killing a sandbox failed", "sandbox", b.spec.ID, "error", err)
			}
			return
		}
	}
}
