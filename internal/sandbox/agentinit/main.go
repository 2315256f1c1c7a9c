//go:build linux && (amd64 || arm64)

package agentinit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Name is the program name (argv[0]) under which a binary runs as init in a
// sandbox that another program built. Its only argument is the address of the
// control socket: "fd:N" is an inherited descriptor.
const Name = "stint-agentinit"

// Argv returns the command line of init. The last element of program must be
// Name if the isolator uses it as argv[0].
func Argv(program, address string) []string { return []string{program, address} }

// StartOptions are sent in a memory file with the go message.
type StartOptions struct {
	Filter []unix.SockFilter // not empty
	// OwnKernel is set if the sandbox has its own kernel. Init then sets up
	// that kernel's file systems.
	OwnKernel bool
}

// Fields encodes or decodes the options.
func (t *StartOptions) Fields(c *Coder) {
	FilterFields(c, &t.Filter)
	c.Bool(&t.OwnKernel)
}

// FilterFields encodes or decodes a system call filter.
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

// In this package, which has few imports, an init function runs before the
// packages of a large binary are initialized.
func init() { MaybeRun() }

// MaybeRun runs the process as init if it was started under Name, and then does
// not return. It waits for the go message, applies the StartOptions, drops
// privileges, sends ready, and serves the control socket. Importing the package
// is sufficient.
func MaybeRun() {
	if len(os.Args) != 2 || path.Base(os.Args[0]) != Name {
		return
	}
	// Privileges and filters apply to threads. The command is forked from this
	// thread.
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
	// User 0 can switch to the agent's user. Any other user already is the
	// agent.
	userRange := os.Geteuid() == 0
	in := &Init{Control: control, UserRange: userRange, AfterStart: func() error { return DropStartPrivileges(userRange) }}
	if err := in.waitForGo(); err != nil {
		_ = in.Send(Message{Op: OpFailed, Text: err.Error()}) // there is no other way to report it
		return 1
	}
	if err := in.Send(Message{Op: OpReady}); err != nil {
		return 1
	}
	in.Serve()
	return 0
}

func openControl(address string) (int, error) {
	number, ok := strings.CutPrefix(address, "fd:")
	fd, err := strconv.Atoi(number)
	if !ok || err != nil || fd < 0 {
		return -1, fmt.Errorf("%q is not the address of a control socket", address)
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// waitForGo waits for the go message and drops the privileges that are not
// needed afterwards.
func (in *Init) waitForGo() error {
	IgnoreSignals(in.UserRange)
	unix.Umask(0o022)
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		// Orphaned processes are re-parented to this process.
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
		return errors.New("waiting for the server: the start options are missing")
	}
	var options StartOptions
	if err := ReadMemoryFile(fds[0], &options); err != nil {
		return err
	}
	if options.OwnKernel {
		if err := setUpKernel(); err != nil {
			return err
		}
	}
	return LockDown(in.UserRange, options.Filter)
}

// setUpKernel mounts /proc and removes devices that agents do not need. /proc
// must be mounted by this process after it changed its user: an earlier mount
// would keep showing it as a process of the agent's user.
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
