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

// Name is the program name (argv[0]) under which a binary runs as init.
const Name = "stint-init"

// init runs the process as a sandbox's init if it was started under Name; it then
// does not return. Because this package has few imports, init runs before most
// packages of the binary are initialized, which would take as long as building a
// root.
func init() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	// Namespaces, privileges, and filters belong to a thread. The command is
	// forked from this thread and inherits them.
	runtime.LockOSThread()
	os.Exit(initMain())
}

// initProcess is the first process of a sandbox.
type initProcess struct {
	agentinit.Init
	plan     Plan
	landlock int // descriptor of the Landlock ruleset, to which attach adds; -1 without Landlock
}

func initMain() int {
	p := &initProcess{}
	p.Control = ControlFD
	sockets, err := p.setUpNamespaces()
	if err != nil {
		_ = p.Send(agentinit.Message{Op: agentinit.OpFailed, Text: err.Error()}) // an error of Send cannot be reported
		return 1
	}
	p.UserRange = p.plan.UserRange
	p.BeforeStart = p.beforeStart
	p.Extra = p.handleExtra
	p.AfterStart = func() error { return agentinit.DropStartPrivileges(p.UserRange) }
	if err := p.Send(agentinit.Message{Op: agentinit.OpReady}, sockets...); err != nil {
		return 1
	}
	for _, fd := range sockets {
		unix.Close(fd) // the server has its own copies
	}
	if len(p.plan.Kernel.Argv) > 0 {
		return p.serveKernel()
	}
	p.Serve()
	return 0
}

// setUpNamespaces builds the root and the network, waits for the go message, and
// drops privileges, unless a user-space kernel is started next. It returns the sockets of
// a captured network for the server.
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
		return nil, fmt.Errorf("setting the host name: %w", err)
	}
	sockets, err := makeNetwork(p.plan.Network)
	if err != nil {
		return nil, err
	}
	// The server sends go after it has moved this process to the sandbox's
	// control groups. A cgroup namespace that is created then hides the groups
	// above them.
	m, _, err := p.Receive()
	if err == nil && m.Op != agentinit.OpGo {
		err = fmt.Errorf("unexpected message %q", m.Op)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the server: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("creating cgroup namespace: %w", err)
	}
	if len(p.plan.Kernel.Argv) > 0 {
		return sockets, nil // the user-space kernel is started with these privileges
	}
	if p.landlock, err = newRuleset(&p.plan); err != nil {
		return nil, err
	}
	return sockets, dropPrivileges(&p.plan)
}

// handleExtra handles the messages that agentinit does not know.
func (p *initProcess) handleExtra(m agentinit.Message, fds []int) error {
	if m.Op != OpAttach {
		return fmt.Errorf("unknown message %q", m.Op)
	}
	if err := p.attach(fds); err != nil {
		return err
	}
	return p.Send(agentinit.Message{Op: OpAttached})
}

// makeNetwork enables the loopback interface, which is the only one. If captured is
// true, it captures the network and returns the two sockets for the server.
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
