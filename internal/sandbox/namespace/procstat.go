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
	cpu        time.Duration // including children that it has waited for
	threads    int64
	rss        int64 // bytes
	startTicks string
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

// parseStat finds the end of the process name, which may contain any character,
// by its last bracket.
func parseStat(b []byte) (procStat, error) {
	i := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[i+1:])
	if i < 0 || len(f) < 22 {
		return procStat{}, fmt.Errorf("malformed stat %q", b)
	}
	var n [24]int64 // indexed from the state, which is field 3 in the manual
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

// sumProcesses returns the total usage of a sandbox's processes, for hosts
// without control groups. It reads init's proc file system. The processes of a
// user-space kernel all map the agent's memory, which is counted once.
func sumProcesses(init int, kernel bool) (cpu time.Duration, memory, pids int64) {
	proc := filepath.Join("/proc", strconv.Itoa(init), "root/proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, 0, 0 // ended
	}
	once := int64(0)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		st, err := readStat(proc, pid)
		if err != nil {
			continue // ended meanwhile
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

// sharedBytes returns the shared memory of a process, or 0 if it has ended.
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
