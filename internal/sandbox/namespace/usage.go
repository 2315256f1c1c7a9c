//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/diskusage"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
)

// Usage reads the groups' counters, or adds up the processes where there are
// none. Disk is as of the last look, at most a few seconds ago.
func (b *box) Usage(context.Context) (sandbox.Usage, error) {
	s, err := b.living()
	if err != nil {
		return sandbox.Usage{}, err
	}
	r, _ := b.now()
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
		return cgroup.Usage{}, errors.New("namespace: Usage after Close")
	}
	return b.sample()
}

// measure looks at the folders if that is due, or for the last time. It holds up
// nobody: the agent decides how much there is to look at.
func (b *box) measure(final bool) int64 {
	limits, writable := b.now()
	l := diskusage.Look{Dirs: writable, Limit: limits.Disk, Interval: b.driver.interval, Now: final, Stop: b.session.Gone()}
	if final {
		l.Stop = nil
	}
	return b.disk.Read(l)
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

func (b *box) sample() (cgroup.Usage, error) {
	u, err := b.group.Usage()
	if err != nil {
		return u, fmt.Errorf("reading usage: %w", err)
	}
	if u.Known.CPU && u.Known.Memory && u.Known.Pids {
		return u, nil
	}
	cpu, memory, pids := sumProcesses(b.process.Pid, b.driver.inner != nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last.CPU = max(b.last.CPU, cpu, b.spent)
	b.last.MemoryPeak = max(b.last.MemoryPeak, memory)
	if !u.Known.CPU {
		u.CPU = b.last.CPU
	}
	if !u.Known.Memory {
		u.Memory, u.MemoryPeak = memory, b.last.MemoryPeak
	}
	if !u.Known.Pids {
		u.Pids = pids
	}
	if b.starved {
		u.OOMKills++
	}
	return u, nil
}
