//go:build linux && (amd64 || arm64)

package agentinit

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LockDown disables core dumps and new privileges for this process and its children,
// prevents other processes from tracing this process, and drops all capabilities
// except those for starting an agent. It then loads the system call filter.
func LockDown(userRange bool, filter []unix.SockFilter) error {
	if err := Harden(userRange, 0); err != nil {
		return err
	}
	return loadFilter(filter)
}

// Harden is LockDown without the filter, for processes that still need the extra
// capabilities (a bit mask). LockDownThread drops them and loads the filter.
func Harden(userRange bool, extra uint32) error {
	if err := DisableCoreDumps(); err != nil {
		return err
	}
	// Prevents processes in the sandbox from tracing init and from reading its
	// memory, environment, or descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	if err := emptyBoundingSet(); err != nil {
		return err
	}
	if err := keepCapabilities(startCapabilities(userRange) | extra); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding new privileges: %w", err)
	}
	return nil
}

// DisableCoreDumps disables core dumps for this process and its children. A
// limit of 1 byte prevents both a dump to a file, which needs at least a memory page,
// and a dump to a host program, which the kernel does not start for a limit of 1.
// If the hard limit is 0 already, the limit stays 0.
func DisableCoreDumps() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if errors.Is(err, unix.EPERM) {
		err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	}
	if err != nil {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	return nil
}

// LockDownThread completes LockDown after Harden. It drops the extra capabilities
// of the calling thread, from which the command is forked, and loads the filter.
// Other threads keep their extra capabilities until DropStartPrivileges, but the
// filter applies to all threads and makes these capabilities useless.
func LockDownThread(userRange bool, filter []unix.SockFilter) error {
	if err := setCapabilities(startCapabilities(userRange)); err != nil {
		return err
	}
	return loadFilter(filter)
}

// emptyBoundingSet empties the capability bounding set of this thread, from which
// the command is forked. Executables with file capabilities then gain none.
func emptyBoundingSet() error {
	for c := uintptr(0); ; c++ {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_AUDIT_READ {
			return nil // past the last capability of this kernel
		}
		if err == nil && held == 1 {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
}

// startCapabilities returns the capabilities that init needs to switch to the
// agent's user, to look up a program in folders of this user, and to signal its
// processes. In a sandbox with a single user, init needs none.
func startCapabilities(userRange bool) uint32 {
	if !userRange {
		return 0
	}
	return 1<<unix.CAP_KILL | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_DAC_READ_SEARCH
}

// DropStartPrivileges drops the capabilities of all threads. If userRange is true,
// it keeps CAP_KILL, which init needs to signal processes of another user. It is
// meant for Init.AfterStart.
func DropStartPrivileges(userRange bool) error {
	return keepCapabilities(startCapabilities(userRange) & (1 << unix.CAP_KILL))
}

// keepCapabilities drops all capabilities except those in mask, on every thread. In
// a program with cgo, Go cannot change other threads; then only the calling thread,
// from which the command is forked, drops them.
func keepCapabilities(mask uint32) error {
	header, data := capabilities(mask)
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno == syscall.ENOTSUP {
		return setCapabilities(mask)
	}
	if errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	return nil
}

// setCapabilities is keepCapabilities for the calling thread only.
func setCapabilities(mask uint32) error {
	header, data := capabilities(mask)
	if err := unix.Capset(header, &data[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

func capabilities(mask uint32) (*unix.CapUserHeader, *[2]unix.CapUserData) {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &[2]unix.CapUserData{{Effective: mask, Permitted: mask}}
}

// loadFilter installs the filter for all threads and future children.
func loadFilter(filter []unix.SockFilter) error {
	if len(filter) == 0 {
		return errors.New("loading the system call filter: it is empty")
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("loading the system call filter: %w", errno)
	}
	return nil
}

// IgnoreSignals protects init from signals that would end it. An agent can send
// signals to init only if both have the same user ID (userRange is false).
func IgnoreSignals(userRange bool) {
	if !userRange {
		signal.Notify(make(chan os.Signal, 1), fatalSignals...)
		handleReservedSignals()
	}
}

// fatalSignals are the signals on which the Go runtime exits, unless the program
// handles them. Other signals are harmless: the runtime ignores them, or they have no
// handler, and the kernel does not deliver signals without a handler to the first
// process of a PID namespace.
var fatalSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGSEGV, syscall.SIGTERM, syscall.SIGSTKFLT, syscall.SIGSYS,
}

// becomeRoot switches to user 0 if the process has the capabilities for this. It is
// needed inside a user-space kernel that starts init as the agent's user.
func becomeRoot() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	const anyUser = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	if os.Geteuid() == 0 || data[0].Effective&anyUser != anyUser {
		return nil
	}
	if err := errors.Join(syscall.Setresgid(0, 0, 0), syscall.Setresuid(0, 0, 0)); err != nil {
		return fmt.Errorf("becoming user 0: %w", err)
	}
	return nil
}

// limitProcesses limits the processes and threads of the command to n if n is positive.
func limitProcesses(n int64) error {
	if n <= 0 {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}); err != nil {
		return fmt.Errorf("limiting processes: %w", err)
	}
	return nil
}
