//go:build linux && (amd64 || arm64)

package inside

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockDown gives up, for init and all that it will start, what building the
// root needed.
func lockDown(p *Plan) error {
	if err := forbidNamespaces(); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	// Undumpable, nobody inside can trace init or read its memory,
	// environment or descriptors.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming undumpable: %w", err)
	}
	if err := emptyBoundingSet(); err != nil {
		return err
	}
	if err := keepCapabilities(startRights(p.Ranged)); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding new privileges: %w", err)
	}
	return loadFilter(p.Filter)
}

// forbidNamespaces sets the number of further namespaces to none: a nested user
// namespace would give the agent capabilities over kernel code that the rest of
// this package keeps from it.
func forbidNamespaces() error {
	for _, kind := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"} {
		err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0)
		if err != nil && (kind != "time" || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("forbidding further %s namespaces: %w", kind, err)
		}
	}
	return nil
}

// emptyBoundingSet sees to it that no program gives capabilities, whatever its
// file says. It holds for this thread, from which the command is forked.
func emptyBoundingSet() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_AUDIT_READ {
			return nil // past the last that this kernel knows
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
}

// startRights are the capabilities, within its own user namespace, that init
// needs to become the agent's user, to find its program in folders of that
// user, and to signal it. A single user needs none of them.
func startRights(ranged bool) uint32 {
	if !ranged {
		return 0
	}
	return 1<<unix.CAP_KILL | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_DAC_READ_SEARCH
}

// dropStartRights leaves only the signalling.
func dropStartRights(ranged bool) error {
	if !ranged {
		return nil
	}
	return keepCapabilities(1 << unix.CAP_KILL)
}

// keepCapabilities gives up all but those of the mask, on every thread. In
// binaries with cgo Go cannot reach the others; there only this thread, from
// which the command is forked, gives them up.
func keepCapabilities(mask uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: mask, Permitted: mask}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno == syscall.ENOTSUP {
		if err := unix.Capset(&header, &data[0]); err != nil {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	return nil
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
