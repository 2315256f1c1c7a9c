//go:build linux && (amd64 || arm64)

package inside

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
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

// warden is init, the first process of a sandbox.
type warden struct {
	control int // blocking socket
	plan    Plan
	killing atomic.Bool // a term was asked for
}

func initMain() int {
	w := &warden{control: ControlFD}
	if err := w.setUp(); err != nil {
		_ = w.say(Message{Op: OpFailed, Text: err.Error()}) // nobody else to tell
		return 1
	}
	if err := w.say(Message{Op: OpReady}); err != nil {
		return 1
	}
	w.serve()
	return 0
}

func (w *warden) setUp() error {
	for fd := ControlFD; fd <= PlanFD; fd++ {
		unix.CloseOnExec(fd)
	}
	if err := readMemoryFile(PlanFD, &w.plan); err != nil {
		return err
	}
	unix.Close(PlanFD)
	if !w.plan.Ranged {
		signal.Notify(make(chan os.Signal, 1), deadly...)
	}
	unix.Umask(0o022)
	if err := buildRoot(&w.plan); err != nil {
		return err
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	// The server says go once its groups hold us: only then does a cgroup
	// namespace hide what lies above them.
	if m, _, err := w.hear(); err != nil || m.Op != OpGo {
		return fmt.Errorf("waiting for the server: %q: %w", m.Op, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("making cgroup namespace: %w", err)
	}
	return lockDown(&w.plan)
}

// deadly are the signals on which the Go runtime ends a program that has no
// handler for them; one with a handler it leaves alone. The kernel keeps what
// cannot be handled from a PID namespace's first process. An agent of a user of
// its own cannot signal init at all.
var deadly = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGSEGV, syscall.SIGTERM, syscall.SIGSTKFLT, syscall.SIGSYS,
}

// serve obeys the server until the socket closes, which ends this process and
// with it all others of its PID namespace.
func (w *warden) serve() {
	for {
		m, fds, err := w.hear()
		if err != nil {
			return
		}
		switch m.Op {
		case OpStart:
			if err := w.start(fds); err != nil {
				_ = w.say(Message{Op: OpRefused, Text: err.Error()})
			}
		case OpTerm:
			w.killing.Store(true)
			_ = unix.Kill(-1, unix.SIGTERM) // all but ourselves; none there is none to tell
			_ = unix.Kill(-1, unix.SIGCONT) // a stopped process would not see it
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

func (w *warden) start(fds []int) error {
	if len(fds) != 4 {
		return fmt.Errorf("the command came with %d descriptors", len(fds))
	}
	var o Order
	if err := readMemoryFile(fds[0], &o); err != nil {
		return err
	}
	pid, err := launch(o, [3]int{fds[1], fds[2], fds[3]}, w.plan.Ranged)
	if err != nil {
		return err
	}
	if err := dropStartRights(w.plan.Ranged); err != nil {
		return err
	}
	if err := w.say(Message{Op: OpStarted}); err != nil {
		return err
	}
	go w.reap(pid)
	return nil
}

// reap collects every process that ends inside; all orphans become ours.
func (w *warden) reap(command int) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: nothing lives, so nothing can come to life
			_ = w.say(Message{Op: OpEmpty})
			return
		case pid == command:
			m := Message{Op: OpExit, Code: ws.ExitStatus(), Killed: w.killing.Load()}
			if ws.Signaled() {
				m.Signal = int(ws.Signal())
				m.Code = 128 + m.Signal
			}
			_ = w.say(m) // a server that is gone has closed the socket, which ends us
		}
	}
}

func (w *warden) say(m Message) error {
	return unix.Sendmsg(w.control, Encode(&m), nil, nil, unix.MSG_NOSIGNAL)
}

func (w *warden) hear() (Message, []int, error) {
	var m Message
	b, oob := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, oobn, _, _, err := unix.Recvmsg(w.control, b, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return m, nil, fmt.Errorf("control socket: %w", err)
		case n == 0:
			return m, nil, fmt.Errorf("control socket: closed")
		}
		fds, err := rights(oob[:oobn])
		if err != nil {
			return m, nil, err
		}
		return m, fds, Decode(b[:n], &m)
	}
}

func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("control socket: %d control messages: %w", len(messages), err)
	}
	return unix.ParseUnixRights(&messages[0])
}
