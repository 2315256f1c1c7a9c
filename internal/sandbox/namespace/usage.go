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
func (sb *instance) Usage(context.Context) (sandbox.Usage, error) {
	s, err := sb.sampleOpen()
	if err != nil {
		return sandbox.Usage{}, err
	}
	r, _ := sb.limitsAndDirs()
	u := sandbox.Usage{
		CPU: s.CPU, Memory: s.Memory, MemoryPeak: s.MemoryPeak, MemoryLimit: r.Memory,
		Disk: sb.diskUsed(sb.isFinalScan()), DiskLimit: r.Disk,
		Pids: s.Pids, OOMKills: s.OOMKills,
	}
	if u.MemoryLimit == 0 {
		u.MemoryLimit = sb.driver.memory
	}
	if u.DiskLimit == 0 {
		u.DiskLimit = diskusage.FileSystemSize(sb.spec.Workspace)
	}
	return u, nil
}

// living samples a sandbox that is not closed.
func (sb *instance) sampleOpen() (cgroup.Usage, error) {
	sb.closeMu.Lock()
	defer sb.closeMu.Unlock()
	if sb.closed {
		return cgroup.Usage{}, errors.New("namespace: Usage after Close")
	}
	return sb.sample()
}

// measure looks at the folders if that is due, or for the last time. It holds up
// nobody: the agent decides how much there is to look at.
func (sb *instance) diskUsed(final bool) int64 {
	limits, writable := sb.limitsAndDirs()
	l := diskusage.ScanOptions{Dirs: writable, Limit: limits.Disk, Interval: sb.driver.diskInterval, Force: final, Stop: sb.conn.Gone()}
	if final {
		l.Stop = nil
	}
	return sb.disk.Scan(l)
}

// final tells, once, that nothing changes any more.
func (sb *instance) isFinalScan() bool {
	select {
	case <-sb.conn.Gone():
	default:
		return false
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	first := !sb.finalScanDone
	sb.finalScanDone = true
	return first
}

func (sb *instance) sample() (cgroup.Usage, error) {
	u, err := sb.group.Usage()
	if err != nil {
		return u, fmt.Errorf("reading usage: %w", err)
	}
	if u.Known.CPU && u.Known.Memory && u.Known.Pids {
		return u, nil
	}
	cpu, memory, pids := sumProcesses(sb.process.Pid, sb.driver.kernel != nil)
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.lastSample.CPU = max(sb.lastSample.CPU, cpu, sb.cpuAtExit)
	sb.lastSample.MemoryPeak = max(sb.lastSample.MemoryPeak, memory)
	if !u.Known.CPU {
		u.CPU = sb.lastSample.CPU
	}
	if !u.Known.Memory {
		u.Memory, u.MemoryPeak = memory, sb.lastSample.MemoryPeak
	}
	if !u.Known.Pids {
		u.Pids = pids
	}
	if sb.memoryExceeded {
		u.OOMKills++
	}
	return u, nil
}
