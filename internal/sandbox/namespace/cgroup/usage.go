package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage contains a group's resource usage. Known reports which counters are
// available; Known.Memory applies to Memory, MemoryPeak, and OOMKills.
type Usage struct {
	CPU        time.Duration
	Memory     int64 // bytes in use, without reclaimable file cache
	MemoryPeak int64 // bytes; 0 if unknown
	Pids       int64 // processes and threads
	OOMKills   int64 // processes that the kernel killed for lack of memory
	Known      struct{ CPU, Memory, Pids bool }
}

// Usage reads the counters.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	for _, read := range []func(*Usage) error{g.readCPU, g.readMemory, g.readPids} {
		if err := read(&u); err != nil {
			return Usage{}, err
		}
	}
	return u, nil
}

func (g *Group) readCPU(u *Usage) error {
	if dir, unified, ok := g.controllerDir("cpuacct"); ok && !unified {
		n, err := readNumber(dir, "cpuacct.usage")
		u.CPU, u.Known.CPU = time.Duration(n), true
		return err
	}
	if g.v2Dir == "" {
		return nil
	}
	// cgroup v2 counts CPU time without a controller.
	n, err := readField(g.v2Dir, "cpu.stat", "usage_usec")
	u.CPU, u.Known.CPU = time.Duration(n)*time.Microsecond, true
	return err
}

func (g *Group) readMemory(u *Usage) error {
	dir, unified, ok := g.controllerDir("memory")
	if !ok {
		return nil
	}
	u.Known.Memory = true
	current, peak, cache, events := "memory.usage_in_bytes", "memory.max_usage_in_bytes", "total_inactive_file", "memory.oom_control"
	if unified {
		current, peak, cache, events = "memory.current", "memory.peak", "inactive_file", "memory.events"
	}
	used, err := readNumber(dir, current)
	if err != nil {
		return err
	}
	idle, err := readField(dir, "memory.stat", cache)
	if err != nil {
		return err
	}
	u.Memory = max(used-idle, 0)
	if _, err := os.Stat(filepath.Join(dir, peak)); err == nil { // cgroup v2 has it since Linux 5.19
		if u.MemoryPeak, err = readNumber(dir, peak); err != nil {
			return err
		}
	}
	u.OOMKills, err = readField(dir, events, "oom_kill")
	return err
}

func (g *Group) readPids(u *Usage) error {
	dir, _, ok := g.controllerDir("pids")
	if !ok {
		return nil
	}
	var err error
	u.Known.Pids = true
	u.Pids, err = readNumber(dir, "pids.current")
	return err
}

// OOMKills returns the number of processes of the group that the kernel killed
// for lack of memory, or 0 if the number is unknown.
func (g *Group) OOMKills() int64 {
	var u Usage
	if err := g.readMemory(&u); err != nil {
		return 0
	}
	return u.OOMKills
}

func readNumber(dir, file string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, fmt.Errorf("cgroup: reading %s: %w", file, err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cgroup: reading %s: %w", file, err)
	}
	return n, nil
}

// readField returns the value of the line "name value" in a control file, or 0 if
// the file has no such line, as on older kernels.
func readField(dir, file, name string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, fmt.Errorf("cgroup: reading %s: %w", file, err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("cgroup: reading %s of %s: %w", name, file, err)
			}
			return n, nil
		}
	}
	return 0, nil
}
