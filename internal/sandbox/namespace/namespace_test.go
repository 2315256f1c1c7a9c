//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

const diskInterval = 20 * time.Millisecond

func TestMain(m *testing.M) {
	sandboxtest.Init(newDriver)
	signal.Ignore(syscall.SIGHUP) // like a server under nohup; agents must receive the signal nevertheless
	goleak.VerifyTestMain(m)
}

func newDriver(stateDir string) (sandbox.Driver, error) {
	return namespace.New(namespace.Config{StateDir: stateDir, DiskInterval: diskInterval})
}

// TestSuite runs the suite as the current user. It expects CPU, memory, and process
// limits only as root, because no control group is delegated to other users.
func TestSuite(t *testing.T) {
	root := os.Geteuid() == 0
	sandboxtest.Run(t, sandboxtest.Harness{
		New: newDriver, Isolates: true, Network: true, Images: true, Overlay: true, Attach: true,
		Limits: sandbox.Enforced{CPU: root, Memory: root, Pids: root, Disk: true},
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
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755), os.Chown(binary, unprivilegedUser, unprivilegedUser), os.Mkdir(home, 0o755), os.Chown(home, unprivilegedUser, unprivilegedUser)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-test.run=^(TestSuite|TestLimits|TestAttachedLimits|TestNothingIsLeft|TestUnavailable|TestProbe|TestNoFurtherNamespaces|TestTrustBundle|TestTrustBundleInImage|TestPropagation)$", "-test.timeout=15m"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	c := exec.Command(binary, args...)
	c.Dir = home
	c.Env = []string{"TMPDIR=" + home, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", unprivilegedUser, err, out)
	}
	t.Logf("as user %d:\n%s", unprivilegedUser, out)
}
