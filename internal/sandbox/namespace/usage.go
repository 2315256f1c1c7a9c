//go:build linux && (amd64 || arm64)

package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/diskusage"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
)

// Usage returns the counters of the control groups. Counters that the groups do not
// provide are sums over the sandbox's processes. Disk is the result of the last scan,
// which is usually at most a few seconds old.
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
	u.MemoryLimit = cmp.Or(u.MemoryLimit, sb.driver.memory)
	if u.DiskLimit == 0 {
		u.DiskLimit = diskusage.FileSystemSize(sb.spec.Workspace)
	}
	return u, nil
}

// sampleOpen returns sample, or an error if the sandbox is closed.
func (sb *instance) sampleOpen() (cgroup.Usage, error) {
	sb.closeMu.Lock()
	defer sb.closeMu.Unlock()
	if sb.closed {
		return cgroup.Usage{}, errors.New("namespace: Usage after Close")
	}
	return sb.sample()
}

// diskUsed returns the size of the writable folders in bytes. It scans the folders if
// a scan is due or if final is true. Unless final is true, it does not wait for a scan
// by another goroutine, because the agent decides how long a scan takes.
func (sb *instance) diskUsed(final bool) int64 {
	limits, writable := sb.limitsAndDirs()
	l := diskusage.ScanOptions{Dirs: writable, Limit: limits.Disk, Interval: sb.driver.diskInterval, Force: final, Stop: sb.conn.Gone()}
	if final {
		l.Stop = nil
	}
	return sb.disk.Scan(l)
}

// isFinalScan returns true once, for the first call after the sandbox has ended, when
// the folders do not change any more.
func (sb *instance) isFinalScan() bool {
	select {
	case <-sb.conn.Gone():
	default:
		return false
	}
	sb.state.mu.Lock()
	defer sb.state.mu.Unlock()
	first := !sb.state.finalScanDone
	sb.state.finalScanDone = true
	return first
}

// sample returns the counters of the control groups, with missing counters replaced
// by sums over the sandbox's processes.
func (sb *instance) sample() (cgroup.Usage, error) {
	u, err := sb.group.Usage()
	if err != nil {
		return u, fmt.Errorf("reading usage: %w", err)
	}
	if u.Known.CPU && u.Known.Memory && u.Known.Pids {
		return u, nil
	}
	cpu, memory, pids := sumProcesses(sb.process.Pid, sb.driver.kernel != nil)
	sb.state.mu.Lock()
	defer sb.state.mu.Unlock()
	sb.state.lastSample.CPU = max(sb.state.lastSample.CPU, cpu, sb.state.cpuAtExit)
	sb.state.lastSample.MemoryPeak = max(sb.state.lastSample.MemoryPeak, memory)
	if !u.Known.CPU {
		u.CPU = sb.state.lastSample.CPU
	}
	if !u.Known.Memory {
		u.Memory, u.MemoryPeak = memory, sb.state.lastSample.MemoryPeak
	}
	if !u.Known.Pids {
		u.Pids = pids
	}
	if sb.state.memoryExceeded {
		u.OOMKills++
	}
	return u, nil
}
