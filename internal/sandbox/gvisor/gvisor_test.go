//go:build linux && (amd64 || arm64)

package gvisor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/gvisor"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

const diskInterval = 20 * time.Millisecond

// kernelEnv is the environment variable with the path of the program that contains
// gVisor's kernel. The test binary cannot serve as this program, because it may be
// built with cgo, which runsc does not support.
const kernelEnv = "STINT_GVISORTEST_KERNEL"

func TestMain(m *testing.M) {
	sandboxtest.Init(newDriver)
	remove, err := buildKernel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// buildKernel builds the program of kernelEnv and sets kernelEnv, so that this process
// and its children use the same program. The function remove deletes the program.
func buildKernel() (remove func() error, err error) {
	if os.Getenv(kernelEnv) != "" {
		return func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "stint-kernel-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "kernel")
	build := exec.Command("go", "build", "-o", path, "./testdata/kernel")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the kernel: %w\n%s", err, out)
	}
	return func() error { return os.RemoveAll(dir) }, os.Setenv(kernelEnv, path)
}

func newDriver(stateDir string) (sandbox.Driver, error) {
	return gvisor.New(gvisor.Config{Config: namespace.Config{StateDir: stateDir, DiskInterval: diskInterval}, Binary: os.Getenv(kernelEnv)})
}

// TestSuite runs the suite as the current user. It expects CPU and memory limits only as
// root, because no control group is delegated to other users. gVisor itself enforces
// the process limit.
func TestSuite(t *testing.T) {
	root := os.Geteuid() == 0
	sandboxtest.Run(t, sandboxtest.Harness{
		New: newDriver, Isolates: true, OwnKernel: true, Network: true, Images: true, Overlay: true,
		Limits: sandbox.Enforced{CPU: root, Memory: root, Pids: true, Disk: true},
	})
}

// unprivilegedUser is a user ID without an account.
const unprivilegedUser = 12345

// TestSuiteWithoutRoot runs the tests again as an unprivileged user.
func TestSuiteWithoutRoot(t *testing.T) {
	requirement.Root(t)
	dir, err := os.MkdirTemp("", "stint-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary, home := filepath.Join(dir, "tests"), filepath.Join(dir, "tmp")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755), os.Mkdir(home, 0o755), os.Chown(home, unprivilegedUser, unprivilegedUser)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-test.run=^Test(Suite|NothingIsLeft|LateFiles|Memory|Probe|Unavailable)$", "-test.timeout=15m"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	c := exec.Command(binary, args...)
	c.Dir = home
	c.Env = []string{"TMPDIR=" + home, "HOME=" + home, "PATH=" + os.Getenv("PATH"), kernelEnv + "=" + os.Getenv(kernelEnv)}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", unprivilegedUser, err, out)
	}
	t.Logf("as user %d:\n%s", unprivilegedUser, out)
}
