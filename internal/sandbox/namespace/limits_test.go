//go:build linux

package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// groupFiles returns the contents of the file with the given name in the control groups
// of a sandbox, in all hierarchies.
func groupFiles(t *testing.T, id, file string) []string {
	t.Helper()
	var values []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // groups of other programs may disappear
		}
		if e.Name() == file && filepath.Base(filepath.Dir(path)) == id {
			b, err := os.ReadFile(path)
			values = append(values, strings.TrimSpace(string(b)))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestLimits checks the limits in the control groups.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	s := w.spec()
	s.Resources = sandbox.Resources{CPU: 1.5, Memory: 256 << 20, Pids: 100}
	b := w.prepare(s)
	defer w.close(b)
	var got []string
	for _, file := range []string{"cpu.max", "cpu.cfs_quota_us", "memory.max", "memory.limit_in_bytes", "pids.max"} {
		got = append(got, groupFiles(t, s.ID, file)...)
	}
	want := map[bool][]string{
		true:  {"150000", "268435456", "116"}, // 100 and 16 for init's threads
		false: nil,
	}[os.Geteuid() == 0]
	for i := range got {
		got[i] = strings.TrimSuffix(got[i], " 100000") // cgroup v2 adds the period
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestAttachedLimits checks the limits in the control groups after Attach.
func TestAttachedLimits(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		first, then sandbox.Resources
		want        []string
	}{
		"from no limits": {sandbox.Resources{}, sandbox.Resources{CPU: 1.5, Memory: 256 << 20, Pids: 100}, []string{"150000", "268435456", "116"}},
		"up":             {sandbox.Resources{CPU: 1, Memory: 64 << 20, Pids: 10}, sandbox.Resources{CPU: 2, Memory: 128 << 20, Pids: 20}, []string{"200000", "134217728", "36"}},
		"down":           {sandbox.Resources{CPU: 2, Memory: 256 << 20, Pids: 99}, sandbox.Resources{CPU: 0.5, Memory: 64 << 20, Pids: 9}, []string{"50000", "67108864", "25"}},
	} {
		s := w.spec()
		s.Resources = c.first
		b := w.prepare(s)
		if err := b.Attach(t.Context(), c.then, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, file := range []string{"cpu.max", "cpu.cfs_quota_us", "memory.max", "memory.limit_in_bytes", "pids.max"} {
			got = append(got, groupFiles(t, s.ID, file)...)
		}
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], " 100000") // cgroup v2 adds the period
		}
		if os.Geteuid() != 0 {
			c.want = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", name, diff)
		}
		w.close(b)
	}
}

// TestUserLimits checks a sandbox's share of per-user and per-host kernel limits.
func TestUserLimits(t *testing.T) {
	w := newWorld(t)
	b := w.prepare(w.spec())
	defer w.close(b)
	var out strings.Builder
	script := `grep -o 'devpts.*' /proc/mounts; sed -nE 's/^Max (pending signals|msgqueue size) +([0-9]+) +([0-9]+).*/\1 \2 \3/p' /proc/self/limits; cat /proc/sys/user/max_inotify_*`
	if err := b.Start(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"}, Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if e, err := b.Wait(t.Context()); err != nil || e.Code != 0 {
		t.Fatalf("exit %+v, %v", e, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("output %q", out.String())
	}
	if !strings.Contains(lines[0], "max=64") {
		t.Errorf("terminals: %s", lines[0])
	}
	if diff := cmp.Diff([]string{"pending signals 1024 1024", "msgqueue size 131072 131072"}, lines[1:3]); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	for i, of := range []string{"instances", "watches"} {
		host, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + of)
		if err != nil {
			t.Fatal(err)
		}
		var all, share int
		if _, err := fmt.Sscan(string(host)+" "+lines[3+i], &all, &share); err != nil {
			t.Fatal(err)
		}
		if share < 1 || share > max(all/8, 1) {
			t.Errorf("%d of %d inotify %s", share, all, of)
		}
	}
}

// TestNothingIsLeft compares open files, records, children, and groups before
// and after sandboxes that ended in various ways.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t)
	w.close(w.prepare(w.spec())) // creates the resources that all sandboxes of a driver share
	before := holdings(t, w.state, w.n)
	for range 3 {
		w.close(w.prepare(w.spec()))
		b := w.prepare(w.spec())
		if e := w.run(b, "/bin/true"); e.Code != 0 {
			t.Fatalf("exit %+v", e)
		}
		w.close(b)
		b = w.prepare(w.spec())
		if err := b.Start(t.Context(), sandbox.Command{Argv: []string{"/no/such/program"}}); err == nil {
			t.Fatal("a program that does not exist was started")
		}
		w.close(b)
		s := w.spec()
		s.Mounts = []sandbox.Mount{{Source: "/no/such/folder", Target: "/data"}}
		if _, err := w.driver.Prepare(t.Context(), s); err == nil {
			t.Fatal("a folder that does not exist was mounted")
		}
	}
	if diff := cmp.Diff(before, holdings(t, w.state, w.n)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// holdings counts what this process holds for sandboxes, and the groups of the first
// sandboxes of a world.
func holdings(t *testing.T, state string, sandboxes int) map[string]int {
	t.Helper()
	count := map[string]int{}
	for name, pattern := range map[string]string{"open files": "/proc/self/fd/*", "records": state + "/*", "children": "/proc/self/task/*/children"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			switch name {
			case "children":
				b, err := os.ReadFile(f)
				if err == nil {
					count[name] += len(strings.Fields(string(b)))
				}
			default:
				if target, err := os.Readlink(f); err != nil || !strings.HasPrefix(target, "anon_inode:") {
					count[name]++ // without anonymous inodes, because the runtime may open its poller at any time
				}
			}
		}
	}
	for n := range sandboxes {
		count["groups"] += len(groupFiles(t, id(n+1), "cgroup.procs"))
	}
	return count
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	// The range of user IDs that starts here exceeds the largest possible user ID.
	_, err := namespace.New(namespace.Config{StateDir: t.TempDir(), UIDBase: 0xF800_0001})
	if os.Geteuid() != 0 {
		if err != nil {
			t.Errorf("New as a user whose range does not matter: %v", err)
		}
		return
	}
	if !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("New with user IDs that do not exist: %v, want %v", err, sandbox.ErrUnavailable)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]namespace.Config{
		"no folder":              {},
		"bad instance":           {StateDir: t.TempDir(), Instance: "Not Good"},
		"file for folder":        {StateDir: "/dev/null/x"},
		"private folder in /usr": {StateDir: t.TempDir(), Private: []string{"/usr/bin"}},
	} {
		if d, err := namespace.New(c); err == nil {
			t.Errorf("%s: accepted", name)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestProbe checks that Probe leaves nothing behind and reports the notes that
// an operator needs.
func TestProbe(t *testing.T) {
	w := newWorld(t)
	before := holdings(t, w.state, w.n)
	r := w.driver.Probe(context.Background())
	if !r.Available || r.Driver != "namespace" || r.Rootless != (os.Geteuid() != 0) || len(r.Notes) == 0 {
		t.Errorf("report %+v", r)
	}
	if hasNote := strings.Contains(strings.Join(r.Notes, " "), "memfd_create"); hasNote == r.Limits.Memory {
		t.Errorf("memory limit enforced: %v; note about its gaps: %v", r.Limits.Memory, hasNote)
	}
	if diff := cmp.Diff(before, holdings(t, w.state, w.n)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// TestInitEnvironment checks from the host that init's environment is empty. It cannot
// be read inside the sandbox.
func TestInitEnvironment(t *testing.T) {
	requirement.Root(t) // an unprivileged user cannot read init's environment
	w := newWorld(t)
	b := w.prepare(w.spec())
	defer w.close(b)
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, l := range lists {
		pids, err := os.ReadFile(l)
		if err != nil {
			continue // the thread has ended
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			name, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if !strings.HasPrefix(string(name), "stint-init") {
				continue
			}
			seen++
			if env, err := os.ReadFile("/proc/" + pid + "/environ"); err != nil || len(env) > 0 {
				t.Errorf("init's environment: %q, %v", env, err)
			}
		}
	}
	if seen != 1 {
		t.Errorf("%d init processes, want 1", seen)
	}
}

// TestNoFurtherNamespaces checks that the kernel's limits of further namespaces are 0 in
// a sandbox. The system call filter also refuses further namespaces.
func TestNoFurtherNamespaces(t *testing.T) {
	w := newWorld(t)
	b := w.prepare(w.spec())
	defer w.close(b)
	var out strings.Builder
	c := sandbox.Command{Argv: []string{"sh", "-c", "cat /proc/sys/user/max_*_namespaces | sort -u"}, Stdout: &out}
	if err := b.Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("0\n", out.String()); diff != "" {
		t.Errorf("namespace limits (-want +got):\n%s", diff)
	}
}
