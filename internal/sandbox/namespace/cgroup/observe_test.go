package cgroup_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
)

const (
	observed = "docker-0123abcd.scope"
	mixed    = "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"32 24 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"33 24 0:29 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n" +
		"34 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)

func TestObserveUnified(t *testing.T) {
	t.Parallel()
	h := newHost(t, unifiedMount, "0::/\n")
	h.write("proc/42/cgroup", "0::/system.slice/"+observed+"\n")
	dir := "sys/fs/cgroup/system.slice/" + observed + "/"
	for file, text := range map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "cpu.stat": "usage_usec 7\n", "memory.current": "100\n", "memory.stat": "inactive_file 40\n",
		"memory.peak": "200\n", "memory.events": "oom_kill 2\n", "pids.current": "3\n",
	} {
		h.write(dir+file, text)
	}
	g, err := cgroup.Observe(h.root, 42, "0123abcd")
	if err != nil {
		t.Fatal(err)
	}
	want := cgroup.Usage{CPU: 7 * time.Microsecond, Memory: 60, MemoryPeak: 200, Pids: 3, OOMKills: 2}
	want.Known.CPU, want.Known.Memory, want.Known.Pids = true, true, true
	wantUsage(t, g, want)
}

// TestObserveMixed has a hierarchy in which the process is with everybody else.
func TestObserveMixed(t *testing.T) {
	t.Parallel()
	h := newHost(t, mixed, "0::/\n")
	h.write("proc/42/cgroup", "4:memory:/docker/0123abcd\n3:pids:/docker/0123abcd\n2:cpuacct:/docker/0123abcd\n0::/\n")
	h.write("sys/fs/cgroup/unified/cgroup.controllers", "")
	for file, text := range map[string]string{
		"memory/docker/0123abcd/memory.usage_in_bytes": "100\n", "memory/docker/0123abcd/memory.stat": "total_inactive_file 40\n",
		"memory/docker/0123abcd/memory.max_usage_in_bytes": "200\n", "memory/docker/0123abcd/memory.oom_control": "oom_kill 1\n",
		"pids/docker/0123abcd/pids.current": "3\n", "cpuacct/docker/0123abcd/cpuacct.usage": "9\n",
	} {
		h.write("sys/fs/cgroup/"+file, text)
	}
	g, err := cgroup.Observe(h.root, 42, "0123abcd")
	if err != nil {
		t.Fatal(err)
	}
	want := cgroup.Usage{CPU: 9, Memory: 60, MemoryPeak: 200, Pids: 3, OOMKills: 1}
	want.Known.CPU, want.Known.Memory, want.Known.Pids = true, true, true
	wantUsage(t, g, want)
	if _, err := cgroup.Observe(h.root, 42, "another"); err == nil {
		t.Error("a group of another name is observed")
	}
	if _, err := cgroup.Observe(h.root, 43, "0123abcd"); err == nil {
		t.Error("a process that is not there is observed")
	}
}
