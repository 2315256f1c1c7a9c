//go:build linux && (amd64 || arm64)

package inside

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/warden"
)

// Name is the name under which a program is init.
const Name = "stint-init"

// An init function, in a package that needs little, runs before the packages of
// a big program ready themselves, which would take as long as building a root.
func init() { MaybeInit() }

// MaybeInit turns the process into a sandbox's init if it was started as one,
// and then never returns. To import this package is enough for it.
func MaybeInit() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	// Namespaces, rights and filters belong to threads; the command is forked
	// from this one.
	runtime.LockOSThread()
	os.Exit(initMain())
}

// process is init, the first process of a sandbox.
type process struct {
	warden.Warden
	plan Plan
}

func initMain() int {
	p := &process{}
	p.Control = ControlFD
	if err := p.setUp(); err != nil {
		_ = p.Say(warden.Message{Op: warden.OpFailed, Text: err.Error()}) // nobody else to tell
		return 1
	}
	p.Ranged = p.plan.Ranged
	p.Started = func() error { return dropStartRights(p.Ranged) }
	if err := p.Say(warden.Message{Op: warden.OpReady}); err != nil {
		return 1
	}
	p.Serve()
	return 0
}

func (p *process) setUp() error {
	for fd := ControlFD; fd <= PlanFD; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := warden.ReadMemoryFile(PlanFD, &p.plan); err != nil {
		return err
	}
	unix.Close(PlanFD)
	if !p.plan.Ranged {
		signal.Notify(make(chan os.Signal, 1), deadly...)
	}
	unix.Umask(0o022)
	if err := buildRoot(&p.plan); err != nil {
		return err
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	// The server says go once its groups hold us: only then does a cgroup
	// namespace hide what lies above them.
	if m, _, err := p.Hear(); err != nil || m.Op != warden.OpGo {
		return fmt.Errorf("waiting for the server: %q: %w", m.Op, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making cgroup namespace: %w", err)
	}
	return lockDown(&p.plan)
}

// deadly are the signals on which the Go runtime ends a program that has no
// handler for them; one with a handler it leaves alone. The kernel keeps what
// cannot be handled from a PID namespace's first process. An agent of a user of
// its own cannot signal init at all.
var deadly = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGSEGV, syscall.SIGTERM, syscall.SIGSTKFLT, syscall.SIGSYS,
}
