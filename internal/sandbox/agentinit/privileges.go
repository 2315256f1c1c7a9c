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

// LockDown gives up, for this process and all that it will start, what no
// sandbox needs: core dumps, being looked into, capabilities but those that
// starting an agent takes, new privileges, and the calls that the filter
// refuses. Without a filter the isolator has one of its own.
func LockDown(userRange bool, filter []unix.SockFilter) error {
	if err := Harden(userRange, 0); err != nil {
		return err
	}
	if filter == nil {
		return nil
	}
	return loadFilter(filter)
}

// Harden is the part of LockDown that can be done early, where further rights
// (bits of capabilities) are needed until LockDownThread.
func Harden(userRange bool, extra uint32) error {
	if err := DisableCoreDumps(); err != nil {
		return err
	}
	// Undumpable, nobody inside can trace us or read our memory, environment
	// or descriptors.
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

// DisableCoreDumps sees to it that no core of this process, and of those that it
// starts, is dumped: neither to a file, which takes at least a page, nor to a
// program of the host's, which the kernel starts whatever the limit is unless
// it is 1. A server that may have none at all can only leave it at that.
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

// LockDownThread is the rest of LockDown, after Harden, for the calling thread, from
// which the command is forked. The other threads keep their further rights
// until DropSetupPrivileges, but the filter, which binds all, leaves them no use for these.
func LockDownThread(userRange bool, filter []unix.SockFilter) error {
	header, data := capabilities(startCapabilities(userRange))
	if err := unix.Capset(header, &data[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return loadFilter(filter)
}

// DropSetupPrivileges leaves all threads only the signalling, after Harden and LockDownThread; for
// Init.Started.
func DropSetupPrivileges(userRange bool) error {
	if !userRange {
		return keepCapabilities(0)
	}
	return DropStartPrivileges(userRange)
}

// emptyBoundingSet sees to it that no program gives capabilities, whatever its
// file says. It holds for this thread, from which the command is forked.
func emptyBoundingSet() error {
	for c := uintptr(0); ; c++ {
		held, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_AUDIT_READ {
			return nil // past the last that this kernel knows
		}
		if err == nil && held == 1 {
			err = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
}

// startRights are the capabilities that a warden needs to become the agent's
// user, to find its program in folders of that user, and to signal it. A single
// user needs none of them.
func startCapabilities(userRange bool) uint32 {
	if !userRange {
		return 0
	}
	return 1<<unix.CAP_KILL | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_DAC_READ_SEARCH
}

// DropStartPrivileges leaves only the signalling; for Init.Started.
func DropStartPrivileges(userRange bool) error {
	if !userRange {
		return nil
	}
	return keepCapabilities(1 << unix.CAP_KILL)
}

// keepCapabilities gives up all but those of the mask, on every thread. In
// binaries with cgo Go cannot reach the others; there only this thread, from
// which the command is forked, gives them up.
func keepCapabilities(mask uint32) error {
	header, data := capabilities(mask)
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno == syscall.ENOTSUP {
		if err := unix.Capset(header, &data[0]); err != nil {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	return nil
}

func capabilities(mask uint32) (*unix.CapUserHeader, *[2]unix.CapUserData) {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &[2]unix.CapUserData{{Effective: mask, Permitted: mask}}
}

// loadFilter binds every thread, and all that is forked from now on.
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

// IgnoreSignals makes signals harmless that an agent of the warden's own user may
// send it; an agent of another user cannot send any.
func IgnoreSignals(userRange bool) {
	if !userRange {
		signal.Notify(make(chan os.Signal, 1), fatalSignals...)
		handleReservedSignals()
	}
}

// deadly are the signals on which the Go runtime ends a program that has no
// handler for them; one with a handler it leaves alone. The kernel keeps what
// cannot be handled from a PID namespace's first process.
var fatalSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGSEGV, syscall.SIGTERM, syscall.SIGSTKFLT, syscall.SIGSYS,
}

// rise makes this process user 0 where it has been given the right to be any: an
// isolator whose own processes have one user only cannot start another.
func becomeRoot() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	const anybody = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	if os.Geteuid() == 0 || data[0].Effective&anybody != anybody {
		return nil
	}
	if err := errors.Join(syscall.Setresgid(0, 0, 0), syscall.Setresuid(0, 0, 0)); err != nil {
		return fmt.Errorf("becoming user 0: %w", err)
	}
	return nil
}

// limitProcesses holds for the warden's command; 0 is no limit.
func limitProcesses(n int64) error {
	if n <= 0 {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}); err != nil {
		return fmt.Errorf("limiting processes: %w", err)
	}
	return nil
}
