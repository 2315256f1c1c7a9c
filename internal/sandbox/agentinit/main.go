//go:build linux && (amd64 || arm64)

package agentinit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"

	"golang.org/x/sys/unix"
)

// Name is the program name (argv[0]) under which a binary runs as init of this
// package, inside a user-space kernel.
const Name = "stint-agentinit"

// ControlFD is the descriptor of the control socket that init inherits.
const ControlFD = 3

// StartOptions are the settings that the server sends with the go message, in a
// memory file.
type StartOptions struct {
	Filter []unix.SockFilter // system call filter; not empty
	// OwnKernel is set if the sandbox has its own kernel. Init then sets up
	// that kernel's file systems.
	OwnKernel bool
}

// init runs the process as the sandbox's init if it was started under Name; it
// then does not return. It waits for the go message, applies the StartOptions,
// drops privileges, sends ready, and serves the control socket. Because this
// package has few imports, init runs before most packages of the binary are
// initialized.
func init() {
	if len(os.Args) == 0 || path.Base(os.Args[0]) != Name {
		return
	}
	// Privileges and filters belong to a thread. The command is forked from this
	// thread and inherits them.
	runtime.LockOSThread()
	os.Exit(run())
}

func run() int {
	unix.CloseOnExec(ControlFD)
	if err := becomeRoot(); err != nil {
		fmt.Fprintln(os.Stderr, Name+": "+err.Error())
		return 1
	}
	// As user 0, init can switch to the agent's user. As any other user, init is
	// already the agent's user.
	userRange := os.Geteuid() == 0
	in := &Init{Control: ControlFD, UserRange: userRange, AfterStart: func() error { return DropStartPrivileges(userRange) }}
	if err := in.waitForGo(); err != nil {
		_ = in.Send(Message{Op: OpFailed, Text: err.Error()}) // an error of Send cannot be reported
		return 1
	}
	if err := in.Send(Message{Op: OpReady}); err != nil {
		return 1
	}
	in.Serve()
	return 0
}

// waitForGo waits for the go message and drops the privileges that are not
// needed afterwards.
func (in *Init) waitForGo() error {
	IgnoreSignals(in.UserRange)
	unix.Umask(0o022)
	if err := os.Chdir("/"); err != nil {
		return err
	}
	m, fds, err := in.Receive()
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err == nil && m.Op != OpGo {
		err = fmt.Errorf("unexpected message %q", m.Op)
	}
	if err != nil {
		return fmt.Errorf("waiting for the server: %w", err)
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

// setUpKernel mounts /proc and removes devices that agents do not need. Init must
// mount /proc after it has changed its user: an earlier mount would still show init
// as a process of the agent's user.
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
