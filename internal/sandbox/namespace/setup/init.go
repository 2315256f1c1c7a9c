//go:build linux && (amd64 || arm64)

package setup

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/capture"
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
type initProcess struct {
	agentinit.Init
	plan     Plan
	landlock int // of Landlock, so far; -1 where there is none
}

func initMain() int {
	p := &initProcess{}
	p.Control = ControlFD
	sockets, err := p.setUpNamespaces()
	if err != nil {
		_ = p.Send(agentinit.Message{Op: agentinit.OpFailed, Text: err.Error()}) // nobody else to tell
		return 1
	}
	p.UserRange = p.plan.UserRange
	p.BeforeStart = p.beforeStart
	p.Extra = p.handleExtra
	p.AfterStart = func() error { return agentinit.DropSetupPrivileges(p.UserRange) }
	if err := p.Send(agentinit.Message{Op: agentinit.OpReady}, sockets...); err != nil {
		return 1
	}
	for _, fd := range sockets {
		unix.Close(fd) // the server has them
	}
	if len(p.plan.Kernel.Argv) > 0 {
		return p.serveKernel()
	}
	p.Serve()
	return 0
}

// setUp gives the sockets of the network that the server is to have.
func (p *initProcess) setUpNamespaces() ([]int, error) {
	for fd := ControlFD; fd <= PlanFD; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := agentinit.ReadMemoryFile(PlanFD, &p.plan); err != nil {
		return nil, err
	}
	unix.Close(PlanFD)
	agentinit.IgnoreSignals(p.plan.UserRange)
	unix.Umask(0o022)
	if err := buildRoot(&p.plan); err != nil {
		return nil, err
	}
	if err := unix.Sethostname([]byte(agentinit.HostName)); err != nil {
		return nil, fmt.Errorf("naming the host: %w", err)
	}
	sockets, err := makeNetwork(p.plan.Network)
	if err != nil {
		return nil, err
	}
	// The server says go once its groups hold us: only then does a cgroup
	// namespace hide what lies above them.
	if m, _, err := p.Receive(); err != nil || m.Op != agentinit.OpGo {
		return nil, fmt.Errorf("waiting for the server: %q: %w", m.Op, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("making cgroup namespace: %w", err)
	}
	if len(p.plan.Kernel.Argv) > 0 {
		return sockets, nil // the kernel needs these rights
	}
	if p.landlock, err = newRuleset(&p.plan); err != nil {
		return nil, err
	}
	return sockets, dropPrivileges(&p.plan)
}

// other obeys what the warden does not know.
func (p *initProcess) handleExtra(m agentinit.Message, fds []int) error {
	if m.Op != OpAttach {
		return fmt.Errorf("unknown message %q", m.Op)
	}
	if err := p.attach(fds); err != nil {
		return err
	}
	return p.Send(agentinit.Message{Op: OpAttached})
}

// makeNetwork makes 127.0.0.1 and ::1 work; there is no other interface.
func makeNetwork(captured bool) ([]int, error) {
	if !captured {
		return nil, capture.RaiseLoopback()
	}
	tcp, dns, err := capture.Redirect()
	if err != nil {
		return nil, err
	}
	return []int{tcp, dns}, nil
}
