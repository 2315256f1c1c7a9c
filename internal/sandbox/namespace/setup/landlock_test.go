//go:build linux && (amd64 || arm64)

package setup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
)

// lockedEnv is an environment variable. If it is set to the path of a folder, the test
// binary restricts itself with Landlock and tries to access files in the folder.
const lockedEnv = "STINT_INSIDE_LOCKED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockedEnv); dir != "" {
		os.Exit(tryLocked(dir))
	}
	os.Exit(m.Run())
}

func tryLocked(dir string) int {
	runtime.LockOSThread()
	open, shut := filepath.Join(dir, "open"), filepath.Join(dir, "shut")
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := setup.Restrict(&setup.Plan{Mounts: []setup.Mount{{Target: open, Writable: true}, {Target: shut}}}); err != nil {
		fmt.Println(err)
		return 1
	}
	write := func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) }
	report := func(what string, err error) { fmt.Println(what, errors.Is(err, fs.ErrPermission), err == nil) }
	report("write open", write(open+"/new"))
	report("make open", os.MkdirAll(open+"/a/b", 0o755))
	report("move open", os.Rename(open+"/new", open+"/a/b/new"))
	report("link open", os.Link(open+"/a/b/new", open+"/name"))
	report("remove open", os.RemoveAll(open+"/a"))
	report("truncate open", os.Truncate(open+"/name", 0))
	_, err := os.ReadFile(shut + "/f")
	report("read shut", err)
	report("write shut", write(shut+"/f"))
	report("new shut", write(shut+"/new"))
	report("make shut", os.Mkdir(shut+"/d", 0o755))
	report("remove shut", os.Remove(shut+"/f"))
	report("truncate shut", os.Truncate(shut+"/f", 0))
	report("move in", os.Rename(shut+"/f", open+"/f"))
	report("link in", os.Link(shut+"/f", open+"/f"))
	report("null", write("/dev/null"))
	report("comm", write("/proc/thread-self/comm"))
	report("run", exec.Command("/proc/self/exe", "-test.run=^$").Run())
	return 0
}

// TestRestrict checks which file operations the Landlock rules permit in a writable and
// in a read-only folder. It fails on a kernel without Landlock, because all supported
// kernels have it.
func TestRestrict(t *testing.T) {
	t.Parallel()
	if v := setup.LandlockVersion(); v < 3 {
		t.Fatalf("this kernel has version %d of Landlock", v)
	}
	// The folder must not be below /tmp, which is writable.
	dir, err := os.MkdirTemp("/var/tmp", "stint-landlock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, err := range []error{os.Mkdir(dir+"/open", 0o755), os.Mkdir(dir+"/shut", 0o755), os.WriteFile(dir+"/shut/f", []byte("x"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{lockedEnv + "=" + dir}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const may, mayNot = " false true", " true false"
	want := []string{
		"write open" + may, "make open" + may, "move open" + may, "link open" + may, "remove open" + may, "truncate open" + may,
		"read shut" + may, "write shut" + mayNot, "new shut" + mayNot, "make shut" + mayNot, "remove shut" + mayNot, "truncate shut" + mayNot,
		"move in" + mayNot, "link in" + mayNot, "null" + may, "comm" + may, "run" + may,
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	// The kernel may refuse to move or link a file with an error that is not
	// fs.ErrPermission.
	for i := range got {
		got[i] = strings.Replace(got[i], "link in false false", "link in true false", 1)
		got[i] = strings.Replace(got[i], "move in false false", "move in true false", 1)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
