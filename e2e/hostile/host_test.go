package hostile_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/e2e/installation"
)

// waitLimit is how long a test waits for what must happen, on a busy machine too.
const waitLimit = 2 * time.Minute

// envCanary stands in the server's environment and in no sandbox.
const envCanary = "canary-of-the-servers-environment"

// host is a server with a data folder of its own.
type host struct {
	*installation.Host
	isolation string
	worlds    atomic.Int64
}

// serve starts the server, and ends it after the test. None of its sandboxes
// waits for a run, so that what runs leave can be told.
func serve(t *testing.T, isolation string) *host {
	t.Helper()
	h := &host{isolation: isolation, Host: installation.New(t, "--isolation", isolation, "--parked", "0")}
	h.Env = []string{"SERVERS_SECRET=" + envCanary}
	h.Start()
	return h
}

// until repeats until done says so.
func (h *host) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitLimit); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s", what, waitLimit)
		}
	}
}

// world makes an organisation with a shell agent called "shell".
func (h *host) world(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, host: h}
	w.client = h.Login(t, fmt.Sprintf("org-%d", h.worlds.Add(1)))
	w.agent("shell", "")
	return w
}

// wantNothing waits until a look at the machine finds nothing.
func (h *host) wantNothing(t *testing.T, what string, look func() []string) {
	t.Helper()
	left := look()
	for deadline := time.Now().Add(waitLimit); len(left) > 0 && time.Now().Before(deadline); left = look() {
		<-time.After(20 * time.Millisecond)
	}
	for _, l := range left {
		t.Errorf("%s: %s", what, l)
	}
}

// leftByRuns are the processes, groups and folders of runs.
func (h *host) leftByRuns() []string {
	found := withCommand(leftBehind)
	for _, root := range []string{"/sys/fs/cgroup", h.Data} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "run_") && (root == h.Data || h.owns(p)) {
				found = append(found, p)
				return fs.SkipDir
			}
			return nil // others come and go
		})
	}
	return found
}

// leftByServer are the mounts, processes and groups of an installation whose
// server has ended.
func (h *host) leftByServer() []string {
	var found []string
	tables, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, table := range tables {
		if mounts, err := os.ReadFile(table); err == nil && strings.Contains(string(mounts), h.Data+"/") {
			found = append(found, table)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && h.owns(p) {
			if lives, err := os.ReadFile(filepath.Join(p, "cgroup.procs")); err == nil && len(lives) > 0 {
				found = append(found, p)
			}
		}
		return nil
	})
	return found
}

// owns reports whether a group is of a run of this server: its name holds the
// installation's.
func (h *host) owns(group string) bool {
	name, err := os.ReadFile(filepath.Join(h.Data, "instance"))
	return err == nil && strings.Contains(group, strings.TrimPrefix(strings.TrimSpace(string(name)), "host_"))
}
