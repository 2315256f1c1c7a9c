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

// waitLimit is the maximum time to wait for an event, even on a busy machine.
const waitLimit = 2 * time.Minute

// envCanary is a value in the environment of the server that must not be visible in a
// sandbox.
const envCanary = "canary-of-the-servers-environment"

// host is a server with its own data folder.
type host struct {
	*installation.Host
	isolation string
	tenants   atomic.Int64
}

// serve starts a server and stops it after the test. The server prepares no sandboxes
// in advance, so that all sandboxes belong to runs.
func serve(t *testing.T, isolation string) *host {
	t.Helper()
	h := &host{isolation: isolation, Host: installation.New(t, "--isolation", isolation, "--parked", "0")}
	h.Env = []string{"SERVERS_SECRET=" + envCanary}
	h.Start()
	return h
}

// waitUntil waits until done returns true, for at most waitLimit. The text in what
// names the awaited event in the failure message.
func (h *host) waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitLimit); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s", what, waitLimit)
		}
	}
}

// tenant creates an organisation with a shell agent called "shell".
func (h *host) tenant(t *testing.T) *tenant {
	t.Helper()
	w := &tenant{T: t, host: h}
	w.client = h.Login(t, fmt.Sprintf("org-%d", h.tenants.Add(1)))
	w.agent("shell", "")
	return w
}

// checkNothingLeft waits until find returns nothing. After waitLimit, it fails the test
// for each result.
func (h *host) checkNothingLeft(t *testing.T, what string, find func() []string) {
	t.Helper()
	left := find()
	for deadline := time.Now().Add(waitLimit); len(left) > 0 && time.Now().Before(deadline); left = find() {
		<-time.After(20 * time.Millisecond)
	}
	for _, l := range left {
		t.Errorf("%s: %s", what, l)
	}
}

// leftByRuns returns the processes, control groups, and folders that runs have left
// behind.
func (h *host) leftByRuns() []string {
	found := withCommand(leftBehind)
	for _, root := range []string{"/sys/fs/cgroup", h.Data} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "run_") && (root == h.Data || h.owns(p)) {
				found = append(found, p)
				return fs.SkipDir
			}
			return nil // other entries may be removed during the walk
		})
	}
	return found
}

// leftByServer returns the mounts and control groups with processes that remain after
// the server has exited. A mount is reported by the mountinfo file of each process that
// sees it.
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

// owns reports whether a control group belongs to this server. The path of such a group
// contains the ID of the installation.
func (h *host) owns(group string) bool {
	name, err := os.ReadFile(filepath.Join(h.Data, "instance"))
	return err == nil && strings.Contains(group, strings.TrimPrefix(strings.TrimSpace(string(name)), "host_"))
}
