package cgroup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace/cgroup"
)

// host is a folder that contains the folders proc and sys of a simulated host.
type host struct {
	*testing.T
	root string
}

func newHost(t *testing.T, mountinfo, own string) host {
	h := host{t, t.TempDir()}
	h.write("proc/self/mountinfo", mountinfo)
	h.write("proc/self/cgroup", own)
	return h
}

func (h host) write(path, text string) {
	h.Helper()
	path = filepath.Join(h.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		h.Fatal(err)
	}
}

func (h host) mkdir(paths ...string) {
	h.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Join(h.root, p), 0o755); err != nil {
			h.Fatal(err)
		}
	}
}

// files returns the contents of all files below the folder dir by their paths relative
// to dir.
func (h host) files(dir string) map[string]string {
	h.Helper()
	got := map[string]string{}
	base := filepath.Join(h.root, dir)
	err := filepath.WalkDir(base, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := strings.CutPrefix(path, base+"/")
		got[rel] = string(b)
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return got
}

func (h host) open() *cgroup.Parent {
	h.Helper()
	p, err := cgroup.Open(cgroup.Config{Instance: "test", Root: h.root, Remove: os.RemoveAll})
	if err != nil {
		h.Fatal(err)
	}
	return p
}

const unifiedMount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"

const legacyMounts = "20 1 8:1 / / rw - ext4 /dev/sda rw\n" +
	"31 25 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n" +
	"32 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
	"33 25 0:30 /outer /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
	"34 25 0:31 / /sys/fs/cgroup/with\\040space rw - cgroup2 none rw\n"

func TestV2(t *testing.T) {
	t.Parallel()
	h := newHost(t, unifiedMount, "0::/system.slice/stint.service\n")
	own := "sys/fs/cgroup/system.slice/stint.service"
	h.write(own+"/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	p := h.open()
	if diff := cmp.Diff(sandbox.Enforced{CPU: true, Memory: true, Pids: true}, p.Enforced()); diff != "" {
		t.Errorf("enforced (-want +got):\n%s", diff)
	}
	g, err := p.Create("run_1", sandbox.Resources{CPU: 1.5, Memory: 1 << 20, Pids: 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := g.FD(); !ok {
		t.Error("no descriptor for starting a process in the group")
	}
	if err := g.Join(4242); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cgroup.controllers":                "cpuset cpu io memory hugetlb pids\n",
		"cgroup.subtree_control":            "+cpu +memory +pids",
		"stint-test/cgroup.subtree_control": "+cpu +memory +pids",
		"stint-test/run_1/cpu.max":          "150000 100000",
		"stint-test/run_1/memory.max":       "1048576",
		"stint-test/run_1/memory.oom.group": "1",
		"stint-test/run_1/pids.max":         "7",
	}
	if diff := cmp.Diff(want, h.files(own)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	group := own + "/stint-test/run_1/"
	h.write(group+"cpu.stat", "usage_usec 1500000\nuser_usec 1\n")
	h.write(group+"memory.current", "5000\n")
	h.write(group+"memory.stat", "anon 1\ninactive_file 1000\n")
	h.write(group+"memory.peak", "9000\n")
	h.write(group+"memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
	h.write(group+"pids.current", "3\n")
	if p.Kind() != "v2" {
		t.Errorf("groups are %s", p.Kind())
	}
	wantUsage(t, g, cgroup.Usage{CPU: 1500 * time.Millisecond, Memory: 4000, MemoryPeak: 9000, Pids: 3, OOMKills: 2})
	if g.OOMKills() != 2 {
		t.Errorf("OOMKills: %d, want 2", g.OOMKills())
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(h.root, group)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group still exists: %v", err)
	}
}

func wantUsage(t *testing.T, g *cgroup.Group, want cgroup.Usage) {
	t.Helper()
	got, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	want.Known.CPU, want.Known.Memory, want.Known.Pids = true, true, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestV1(t *testing.T) {
	t.Parallel()
	h := newHost(t, legacyMounts, "4:memory:/box/x\n3:cpu,cpuacct:/\n2:pids:/outer/in\n1:name=systemd:/\n0::/\n")
	h.mkdir("sys/fs/cgroup/memory/box/x", "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/pids/in", "sys/fs/cgroup/with space")
	h.write("sys/fs/cgroup/with space/cgroup.controllers", "hugetlb\n")
	p := h.open()
	if diff := cmp.Diff(sandbox.Enforced{CPU: true, Memory: true, Pids: true}, p.Enforced()); diff != "" {
		t.Errorf("enforced (-want +got):\n%s", diff)
	}
	g, err := p.Create("run_1", sandbox.Resources{CPU: 0.001, Memory: 1 << 20, Pids: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Join(4242); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cpu,cpuacct/stint-test/run_1/cgroup.procs":           "4242",
		"cpu,cpuacct/stint-test/run_1/cpu.cfs_period_us":      "100000",
		"cpu,cpuacct/stint-test/run_1/cpu.cfs_quota_us":       "1000", // the kernel's minimum
		"memory/box/x/stint-test/run_1/cgroup.procs":          "4242",
		"memory/box/x/stint-test/run_1/memory.limit_in_bytes": "1048576",
		"pids/in/stint-test/run_1/cgroup.procs":               "4242",
		"pids/in/stint-test/run_1/pids.max":                   "7",
		"with space/cgroup.controllers":                       "hugetlb\n",
	}
	if diff := cmp.Diff(want, h.files("sys/fs/cgroup")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	memory := "sys/fs/cgroup/memory/box/x/stint-test/run_1/"
	h.write(memory+"memory.usage_in_bytes", "5000\n")
	h.write(memory+"memory.max_usage_in_bytes", "9000\n")
	h.write(memory+"memory.stat", "inactive_file 3\ntotal_inactive_file 1000\n")
	h.write(memory+"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	h.write("sys/fs/cgroup/cpu,cpuacct/stint-test/run_1/cpuacct.usage", "1500000000\n")
	h.write("sys/fs/cgroup/pids/in/stint-test/run_1/pids.current", "3\n")
	if p.Kind() != "hybrid" {
		t.Errorf("groups are %s", p.Kind())
	}
	wantUsage(t, g, cgroup.Usage{CPU: 1500 * time.Millisecond, Memory: 4000, MemoryPeak: 9000, Pids: 3, OOMKills: 1})
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"with space/cgroup.controllers": "hugetlb\n"}, h.files("sys/fs/cgroup")); diff != "" {
		t.Errorf("files after Close (-want +got):\n%s", diff)
	}
}

// TestWithoutGroups checks a host on which the groups cannot be written.
func TestWithoutGroups(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{
		"missing":           "0::/user.slice\n",
		"outside the mount": "0::/../elsewhere\n",
		"not mounted":       "4:memory:/\n",
		"malformed":         "nonsense\n\n0::\n",
	} {
		h := newHost(t, unifiedMount, own)
		p := h.open()
		if p.Enforced() != (sandbox.Enforced{}) || name == "not mounted" && p.Kind() != "none" {
			t.Errorf("%s: %s, enforces %+v", name, p.Kind(), p.Enforced())
		}
		g, err := p.Create("run_1", sandbox.Resources{Memory: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := g.FD(); ok && name != "malformed" {
			t.Errorf("%s: a process can be started in a group", name)
		}
		if err := errors.Join(g.Join(1), g.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if u, err := g.Usage(); err != nil || u.Known.Memory {
			t.Errorf("%s: usage %+v, %v", name, u, err)
		}
	}
}

// TestServerLeaf checks a server that has moved into a leaf of its own control group.
// The sandboxes' groups are siblings of the leaf.
func TestServerLeaf(t *testing.T) {
	t.Parallel()
	h := newHost(t, unifiedMount, "0::/stint-server\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "memory\n")
	h.mkdir("sys/fs/cgroup/stint-server")
	p := h.open()
	if diff := cmp.Diff([]string{filepath.Join(h.root, "sys/fs/cgroup/stint-test")}, p.Dirs()); diff != "" {
		t.Errorf("groups of a server in a leaf (-want +got):\n%s", diff)
	}
	if !p.Enforced().Memory || p.Kind() != "v2" {
		t.Errorf("%s, enforces %+v; %v", p.Kind(), p.Enforced(), p.Notes())
	}
}

// TestV2NotDelegated checks a group that cannot delegate controllers. In this test the
// file cgroup.subtree_control is a folder, so writing to it fails.
func TestV2NotDelegated(t *testing.T) {
	t.Parallel()
	h := newHost(t, unifiedMount, "0::/\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "memory\n")
	h.mkdir("sys/fs/cgroup/cgroup.subtree_control")
	p := h.open()
	if p.Enforced().Memory || len(p.Notes()) == 0 || !strings.Contains(p.Notes()[0], "Delegate=yes") {
		t.Errorf("enforces %+v, notes %v", p.Enforced(), p.Notes())
	}
}

func TestRemoveRetries(t *testing.T) {
	t.Parallel()
	h := newHost(t, unifiedMount, "0::/\n")
	h.write("sys/fs/cgroup/cgroup.controllers", "")
	tries := 0
	p, err := cgroup.Open(cgroup.Config{Instance: "test", Root: h.root, Remove: func(dir string) error {
		if tries++; tries < 4 {
			return &fs.PathError{Op: "rmdir", Path: dir, Err: syscall.EBUSY}
		}
		return os.RemoveAll(dir)
	}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.Create("run_1", sandbox.Resources{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(t.Context()); err != nil || tries != 4 {
		t.Errorf("Close: %v after %d tries, want success after 4", err, tries)
	}
	if g, err = p.Create("run_2", sandbox.Resources{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tries = -1000
	if err := g.Close(ctx); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Close of a group that stays busy: %v", err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	h := newHost(t, legacyMounts, "4:memory:/\n")
	h.mkdir("sys/fs/cgroup/memory")
	p := h.open()
	h.write("sys/fs/cgroup/memory/stint-test/run_1/cgroup.kill", "")
	h.write("sys/fs/cgroup/memory/stint-test/run_2/cgroup.procs", strconv.Itoa(1<<30)+"\n") // larger than every process ID
	h.write("sys/fs/cgroup/memory/old/stint-test/run_3/cgroup.procs", "")
	h.write("sys/fs/cgroup/memory/others/run_4/cgroup.procs", "")
	earlier := []string{
		filepath.Join(h.root, "sys/fs/cgroup/memory/old/stint-test"),
		filepath.Join(h.root, "sys/fs/cgroup/memory/others"), // not a folder of this server, as in a forged record
		filepath.Join(h.root, "sys/fs/cgroup/memory/gone/stint-test"),
	}
	if err := p.Sweep(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"memory/others/run_4/cgroup.procs": ""}, h.files("sys/fs/cgroup")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	for path, want := range map[string]bool{"memory/stint-test": true, "memory/old/stint-test": false} {
		if _, err := os.Stat(filepath.Join(h.root, "sys/fs/cgroup", path)); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %v", path, err, want)
		}
	}
}

func TestInstance(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Upper", "a/b", "..", strings.Repeat("a", 33)} {
		if _, err := cgroup.Open(cgroup.Config{Instance: name, Root: t.TempDir()}); err == nil {
			t.Errorf("instance %q is accepted", name)
		}
	}
}

// TestLimit checks that the limits of a group can be changed and removed after a process
// has joined the group.
func TestLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mounts, own, dir   string
		limited, unlimited map[string]string
	}{
		"version 2": {
			unifiedMount, "0::/own\n", "sys/fs/cgroup/own/stint-test/run_1",
			map[string]string{"cpu.max": "50000 100000", "memory.max": "4096", "memory.oom.group": "1", "memory.swap.max": "0", "pids.max": "3"},
			map[string]string{"cpu.max": "max 100000", "memory.max": "max", "memory.oom.group": "1", "memory.swap.max": "max", "pids.max": "max"},
		},
		"version 1": {
			legacyMounts, "3:memory:/own\n", "sys/fs/cgroup/memory/own/stint-test/run_1",
			map[string]string{"cgroup.procs": "4242", "memory.limit_in_bytes": "4096", "memory.memsw.limit_in_bytes": "4096"},
			map[string]string{"cgroup.procs": "4242", "memory.limit_in_bytes": "-1", "memory.memsw.limit_in_bytes": "-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, c.mounts, c.own)
			h.mkdir("sys/fs/cgroup/own", "sys/fs/cgroup/memory/own")
			h.write("sys/fs/cgroup/own/cgroup.controllers", "cpu memory pids\n")
			p := h.open()
			g, err := p.Create("run_1", sandbox.Resources{})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Join(4242); err != nil {
				t.Fatal(err)
			}
			swap := map[string]string{"version 1": "memory.memsw.limit_in_bytes", "version 2": "memory.swap.max"}[name]
			h.write(c.dir+"/"+swap, "") // exists on kernels with swap accounting
			for _, step := range []struct {
				limits sandbox.Resources
				want   map[string]string
			}{{sandbox.Resources{CPU: 0.5, Memory: 4096, Pids: 3}, c.limited}, {sandbox.Resources{}, c.unlimited}} {
				if err := g.Limit(step.limits); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(step.want, h.files(c.dir)); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			}
		})
	}
}
