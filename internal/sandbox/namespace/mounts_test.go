//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// TestPropagation checks that mounts of a sandbox do not appear on the host if its
// workspace is below a shared mount. Under systemd, mounts are shared by default.
func TestPropagation(t *testing.T) {
	requirement.Root(t) // to create a shared mount; sandboxes of other users see private copies
	w := newWorld(t)
	s := w.spec()
	shared := t.TempDir()
	for _, err := range []error{
		unix.Mount(shared, shared, "", unix.MS_BIND, ""),
		unix.Mount("", shared, "", unix.MS_SHARED, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(shared, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.Workspace = filepath.Join(shared, "workspace")
	given, later := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.Mkdir(s.Workspace, 0o700),
		os.WriteFile(filepath.Join(given, "f"), []byte("given,"), 0o600),
		os.WriteFile(filepath.Join(later, "f"), []byte("later"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Mounts = []sandbox.Mount{{Source: given, Target: sandbox.WorkspaceDir + "/given"}}
	b := w.prepare(s)
	defer w.close(b)
	if err := b.Attach(t.Context(), s.Resources, []sandbox.Mount{{Source: later, Target: sandbox.WorkspaceDir + "/later"}}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := b.Start(t.Context(), sandbox.Command{Argv: []string{"cat", "given/f", "later/f"}, Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("given,later", out.String()); diff != "" {
		t.Errorf("inside (-want +got):\n%s", diff)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), s.Workspace) {
		t.Errorf("a sandbox's mounts appear on the host:\n%s", mounts)
	}
}

// TestImageOwner checks that the files of an image belong to root inside the sandbox
// and keep their modes.
func TestImageOwner(t *testing.T) {
	requirement.Root(t) // with a single user, the image belongs to the agent's user
	w := newWorld(t)
	s := w.spec()
	s.Image = filepath.Join(t.TempDir(), "image")
	writeFiles(t, s.Image, map[string]string{"bin/tool": "x", "etc/public": "public", "etc/private": "private", "data/f": "f"})
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "etc/private": 0o600, "data": 0o700} {
		if err := os.Chmod(filepath.Join(s.Image, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(s.Image), 0o700); err != nil {
		t.Fatal(err)
	}
	b := w.prepare(s)
	defer w.close(b)
	root := w.root(b)
	defer unix.Close(root)
	first := namespaceFirst(t, w.pid(b))
	var got []string
	for _, name := range []string{"bin/tool", "etc/public", "etc/private", "data"} {
		var st unix.Stat_t
		if err := unix.Fstatat(root, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %d %d", name, st.Mode&0o7777, int(st.Uid)-first, int(st.Gid)-first))
	}
	if diff := cmp.Diff([]string{"bin/tool 755 0 0", "etc/public 644 0 0", "etc/private 600 0 0", "data 700 0 0"}, got); diff != "" {
		t.Errorf("owners inside (-want +got):\n%s", diff)
	}
}

// namespaceFirst returns the host user ID of user 0 in a process's user
// namespace.
func namespaceFirst(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err != nil {
		t.Fatal(err)
	}
	var inside, outside, size int
	if _, err := fmt.Sscan(string(text), &inside, &outside, &size); err != nil || inside != 0 {
		t.Fatalf("user mapping %q: %v", text, err)
	}
	return outside
}
