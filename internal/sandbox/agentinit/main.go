//go:build linux && (amd64 || arm64)

package agentinit

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Name is the name under which a program is the warden of a sandbox that
// another program has built. Its one argument tells where the control socket
// is: "fd:N" is a descriptor it is born with, "unix:PATH" a socket of packets
// to connect to.
const Name = "stint-agentinit"

// Argv is the command line of a guest; program is its path inside, whose
// last element must be Name where the isolator gives it as argv[0].
func Argv(program, address string) []string { return []string{program, address} }

// StartOptions may travel, as a memory file, beside the server's go. Isolators that
// filter calls themselves send none.
type StartOptions struct {
	Filter []unix.SockFilter // not empty
	// OwnKernel: the sandbox has a kernel of its own, and the warden readies
	// its file systems.
	OwnKernel bool
}

// Carry carries the terms.
func (t *StartOptions) Fields(c *Coder) {
	FilterFields(c, &t.Filter)
	c.Bool(&t.OwnKernel)
}

// CodeFilter carries a system call filter.
func FilterFields(c *Coder, p *[]unix.SockFilter) {
	List(c, p, func(c *Coder, f *unix.SockFilter) {
		n := int64(f.Code)<<16 | int64(f.Jt)<<8 | int64(f.Jf)
		k := int64(f.K)
		c.Int64(&n)
		c.Int64(&k)
		if c.Reading {
			*f = unix.SockFilter{Code: uint16(n >> 16), Jt: uint8(n >> 8), Jf: uint8(n), K: uint32(k)}
		}
	})
}

// An init function, in a package that needs little, runs before the packages of
// a big program ready themselves.
func init() { MaybeRun() }

// MaybeRun turns the process into a warden if it was started as one, and then
// never returns. It waits for the server's go, with StartOptions or without, gives up
// its rights, and says ready; from there on it serves. To import this package
// is enough for it.
func MaybeRun() {
	if len(os.Args) != 2 || path.Base(os.Args[0]) != Name {
		return
	}
	// Descriptors and filters belong to threads; the command is forked from this one.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1]))
}

func run(address string) int {
	control, err := openControl(address)
	if err != nil {
		fmt.Fprintln(os.Stderr, Name+": "+err.Error())
		return 1
	}
	if err := becomeRoot(); err != nil {
		fmt.Fprintln(os.Stderr, Name+": "+err.Error())
		return 1
	}
	// User 0 can become the agent; any other is the agent already.
	userRange := os.Geteuid() == 0
	w := &Init{Control: control, UserRange: userRange, AfterStart: func() error { return DropStartPrivileges(userRange) }}
	if err := w.waitForGo(); err != nil {
		_ = w.Send(Message{Op: OpFailed, Text: err.Error()}) // nobody else to tell
		return 1
	}
	if err := w.Send(Message{Op: OpReady}); err != nil {
		return 1
	}
	w.Serve()
	return 0
}

func openControl(address string) (int, error) {
	kind, rest, _ := strings.Cut(address, ":")
	switch kind {
	case "fd":
		fd, err := strconv.Atoi(rest)
		if err != nil || fd < 0 {
			return -1, fmt.Errorf("%q is no descriptor", rest)
		}
		unix.CloseOnExec(fd)
		return fd, nil
	case "unix":
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return -1, fmt.Errorf("making control socket: %w", err)
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: rest}); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("connecting to %s: %w", rest, err)
		}
		return fd, nil
	}
	return -1, fmt.Errorf("%q names no control socket", address)
}

// settle waits for go and gives up what the terms do not leave.
func (in *Init) waitForGo() error {
	IgnoreSignals(in.UserRange)
	unix.Umask(0o022)
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		// What loses its parent comes to us all the same.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("adopting orphans: %w", err)
		}
	}
	m, fds, err := in.Receive()
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err != nil || m.Op != OpGo {
		return fmt.Errorf("waiting for the server: %q: %w", m.Op, err)
	}
	if len(fds) == 0 {
		return LockDown(in.UserRange, nil)
	}
	var terms StartOptions
	if err := ReadMemoryFile(fds[0], &terms); err != nil {
		return err
	}
	if terms.OwnKernel {
		if err := setUpKernel(); err != nil {
			return err
		}
	}
	return LockDown(in.UserRange, terms.Filter)
}

// readyKernel mounts /proc and takes away devices that no agent needs. A /proc
// that had been there when the warden began would for ever show it as a process
// of the user that it was then, who is the agent.
func setUpKernel() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, device := range []string{"/dev/fuse", "/dev/net"} {
		if err := os.RemoveAll(device); err != nil {
			return fmt.Errorf("removing %s: %w", device, err)
		}
	}
	return nil
}
