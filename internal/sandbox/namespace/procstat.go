//go:build linux && (amd64 || arm64)

package namespace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// procStat contains fields of /proc/<pid>/stat.
type procStat struct {
	cpu        time.Duration // user and system time, including children that the process has waited for
	threads    int64
	rss        int64  // bytes
	startTicks string // start time in clock ticks since boot
}

// tick is the unit of times in /proc: 10 ms on all architectures that Go
// supports.
const tick = 10 * time.Millisecond

func readStat(proc string, pid int) (procStat, error) {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

// parseStat parses the content of /proc/<pid>/stat. The process name is in brackets
// and may contain any character, so it ends at the last closing bracket.
func parseStat(b []byte) (procStat, error) {
	i := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[i+1:])
	if i < 0 || len(f) < 22 {
		return procStat{}, fmt.Errorf("malformed stat %q", b)
	}
	var n [24]int64 // fields by index; index 0 is the state, field 3 in proc_pid_stat(5)
	for _, k := range []int{11, 12, 13, 14, 17, 21} {
		v, err := strconv.ParseInt(string(f[k]), 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("malformed stat %q", b)
		}
		n[k] = v
	}
	return procStat{
		cpu:        time.Duration(n[11]+n[12]+n[13]+n[14]) * tick,
		threads:    n[17],
		rss:        n[21] * int64(os.Getpagesize()),
		startTicks: string(f[19]),
	}, nil
}

// sumProcesses returns the total usage of a sandbox's processes, for hosts without
// control groups: CPU time, memory in bytes, and number of threads. It reads the
// sandbox's proc file system. All processes of a user-space kernel map the agent's
// memory; it is counted once.
func sumProcesses(init int, kernel bool) (cpu time.Duration, memory, pids int64) {
	proc := filepath.Join("/proc", strconv.Itoa(init), "root/proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, 0, 0 // the sandbox has ended
	}
	once := int64(0)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		st, err := readStat(proc, pid)
		if err != nil {
			continue // the process has ended
		}
		if kernel {
			shared := min(sharedBytes(proc, pid), st.rss)
			st.rss -= shared
			once = max(once, shared)
		}
		cpu += st.cpu
		memory += st.rss
		pids += st.threads
	}
	return cpu, memory + once, pids
}

// sharedBytes returns the shared memory of a process in bytes, or 0 if the process
// has ended.
func sharedBytes(proc string, pid int) int64 {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return 0
	}
	pages, err := strconv.ParseInt(string(f[2]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
