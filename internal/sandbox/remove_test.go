//go:build linux

package sandbox_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
)

// childEnv is set in the process that runs the cases with a low limit of open
// files.
const childEnv = "STINT_TEST_REMOVE"

// TestRemove runs the cases of hardFolders as the current user and, if the current user
// is root, also as an unprivileged user.
func TestRemove(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		for name, build := range hardFolders {
			t.Run(name, func(t *testing.T) { checkRemove(t, build) })
		}
		return
	}
	users := map[string]*syscall.Credential{"current user": nil}
	if os.Geteuid() == 0 {
		users["unprivileged user"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("/tmp", "remove-") // the parents of t.TempDir may be inaccessible
			must(t, err, os.Chmod(dir, 0o777))
			t.Cleanup(func() { must(t, sandbox.Remove(dir)) })
			c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestRemove$")
			c.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+dir)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL}
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func checkRemove(t *testing.T, build func(t *testing.T, dir string)) {
	was := unix.Rlimit{}
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: was.Max}))
	dir := filepath.Join(t.TempDir(), "removed")
	must(t, os.Mkdir(dir, 0o700))
	build(t, dir)
	if err := sandbox.Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder still exists: %v", err)
	}
}

// hardFolders are functions that fill a folder so that it is hard to remove.
var hardFolders = map[string]func(t *testing.T, dir string){
	"longer than any path, closed at the bottom": func(t *testing.T, dir string) {
		bottom := nest(t, dir, 17, strings.Repeat("n", 255))
		defer unix.Close(bottom)
		must(t, unix.Mkdirat(bottom, "closed", 0o700), unix.Mkdirat(bottom, "closed/inside", 0), unix.Fchmodat(bottom, "closed", 0, 0))
	},
	"deeper than descriptors": func(t *testing.T, dir string) {
		bottom := nest(t, dir, 2_000, "d")
		defer unix.Close(bottom)
		must(t, unix.Mkdirat(bottom, "closed", 0))
	},
	"deep and closed on every level": func(t *testing.T, dir string) {
		var above []int
		fd := open(t, unix.AT_FDCWD, dir)
		for range 100 {
			must(t, unix.Mkdirat(fd, "d", 0o700), unix.Mkdirat(fd, "beside", 0))
			next := open(t, fd, "d")
			above, fd = append(above, fd), next
		}
		unix.Close(fd)
		for _, fd := range slices.Backward(above) {
			must(t, unix.Fchmodat(fd, "d", 0, 0), unix.Close(fd))
		}
	},
	"names of what is moved up": func(t *testing.T, dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, ".lifted-1", "full"), 0o700), os.WriteFile(filepath.Join(dir, ".lifted-2"), nil, 0o600))
		unix.Close(nest(t, dir, 200, "d"))
	},
	"more entries than are read at once, read-only": func(t *testing.T, dir string) {
		for i := range 600 {
			must(t, os.WriteFile(filepath.Join(dir, strings.Repeat("f", 1+i%200)+string(rune('0'+i/200))), nil, 0o400))
		}
		must(t, os.Chmod(dir, 0o500))
	},
	"links": func(t *testing.T, dir string) {
		outside := t.TempDir()
		must(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600), os.Chmod(outside, 0o500))
		must(t, os.Symlink(outside, filepath.Join(dir, "link")), os.Symlink("nowhere", filepath.Join(dir, "dangling")))
		t.Cleanup(func() {
			st, err := os.Stat(outside)
			must(t, err)
			if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil || st.Mode().Perm() != 0o500 {
				t.Errorf("a link was followed: %v, %v", st.Mode(), err)
			}
			must(t, os.Chmod(outside, 0o700))
		})
	},
}

func TestRemoveOther(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600), sandbox.Remove(file), sandbox.Remove(file), sandbox.Remove(filepath.Join(file, "below")))
	if err := sandbox.Remove("/proc/self"); err == nil {
		t.Error("removing /proc/self succeeds")
	}
}

// nest creates depth nested folders with the same name in dir. It returns a descriptor
// of the innermost folder.
func nest(t *testing.T, dir string, depth int, name string) int {
	t.Helper()
	fd := open(t, unix.AT_FDCWD, dir)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o700))
		next := open(t, fd, name)
		unix.Close(fd)
		fd = next
	}
	return fd
}

func open(t *testing.T, at int, name string) int {
	t.Helper()
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	return fd
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
