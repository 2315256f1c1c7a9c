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

// waitLimit is how long a test waits for what must happen, on a busy machine too.
const waitLimit = 5 * time.Minute

func TestMain(m *testing.M) {
	installation.Parallel(8) // most of what these tests do is wait for other programs
	installation.Main(m)
}

// program is one that runs from here, in a folder.
type program struct {
	t   testing.TB
	dir string
}

// run gives what a program printed, and its exit code.
func (p program) run(name string, args ...string) (out []byte, code int) {
	p.t.Helper()
	requirement.Programs(p.t, name)
	ctx, cancel := context.WithTimeout(p.t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME="+p.dir) // nobody's settings
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                     // a browser is many processes
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitLimit / 10 // for what its children still say
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if cmd.Process != nil {
		_ = cmd.Cancel() // what it left
	}
	if cmd.ProcessState == nil || ctx.Err() != nil {
		p.t.Fatalf("%s: %v, %v\n%s", name, err, ctx.Err(), installation.Tail(said.String(), 2000))
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Logf("%s ended with %d: %s", name, code, installation.Tail(said.String(), 2000))
	}
	return out, code
}

// fleeting is a folder for a program whose children may write to it for a moment
// longer than it runs.
func fleeting(t testing.TB) string {
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

// must is run of a program that has to succeed.
func (p program) must(name string, args ...string) []byte {
	p.t.Helper()
	out, code := p.run(name, args...)
	if code != 0 {
		p.t.Fatalf("%s %.300q failed", name, args)
	}
	return out
}
