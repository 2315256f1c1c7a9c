package download_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// waitLimit is the maximum time to wait for an event, even on a busy machine.
const waitLimit = 5 * time.Minute

func TestMain(m *testing.M) {
	installation.Parallel(8) // these tests mostly wait for other programs
	installation.Main(m)
}

// program runs programs with the working directory dir.
type program struct {
	t   testing.TB
	dir string
}

// run runs a program and returns its standard output and exit code. It skips the test
// if the program is not installed.
func (p program) run(name string, args ...string) (out []byte, code int) {
	p.t.Helper()
	requirement.Programs(p.t, name)
	ctx, cancel := context.WithTimeout(p.t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME="+p.dir) // the program does not read the user's settings
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                     // lets Cancel kill the program and its children
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitLimit / 10 // children may keep the output open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.Process != nil {
		_ = cmd.Cancel() // kills children that are still running
	}
	if cmd.ProcessState == nil || ctx.Err() != nil {
		p.t.Fatalf("%s: %v, %v\n%s", name, err, ctx.Err(), installation.Tail(stderr.String(), 2000))
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Logf("%s ended with %d: %s", name, code, installation.Tail(stderr.String(), 2000))
	}
	return out, code
}

// newFolder returns a temporary folder for a program that may leave children. These may
// still write to the folder while it is removed at the end of the test.
func newFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stint-download-")
	installation.Check(t, err)
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for deadline := time.Now().Add(waitLimit / 10); err != nil && time.Now().Before(deadline); err = os.RemoveAll(dir) {
			<-time.After(50 * time.Millisecond)
		}
		installation.Check(t, err)
	})
	return dir
}

// must is like run, but ends the test if the exit code is not 0.
func (p program) must(name string, args ...string) []byte {
	p.t.Helper()
	out, code := p.run(name, args...)
	if code != 0 {
		p.t.Fatalf("%s %.300q failed", name, args)
	}
	return out
}
