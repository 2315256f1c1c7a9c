//go:build linux && (amd64 || arm64)

package agentinit

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction.
type action struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDefault = 0 // SIG_DFL
	sigIgnore  = 1 // SIG_IGN
	signals    = 64
)

// reservedSignals are the signals that the Go runtime leaves to C libraries.
var reservedSignals = []uintptr{32, 33, 34}

// noopHandler is the address of a signal handler that does nothing.
var noopHandler uintptr

// handleReservedSignals installs handlers for the reserved signals. The kernel
// drops unhandled signals to the first process of a PID namespace, but not
// while the signal is blocked, as all signals are during a handler: then the
// default action ends the process. SIG_IGN is not an option, because the
// command would inherit it, and the runtime's handler aborts on signals that it
// does not expect.
func handleReservedSignals() {
	var heard action // provides the flags and the restorer
	if sigaction(uintptr(unix.SIGUSR1), nil, &heard) != 0 {
		return
	}
	for _, n := range reservedSignals {
		var now action
		if sigaction(n, nil, &now) == 0 && now.handler <= sigIgnore {
			now = heard
			now.handler = noopHandler
			_ = sigaction(n, &now, nil) // cannot fail for these signals
		}
	}
}

func sigaction(n uintptr, set, was *action) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
	return errno
}

// resetIgnoredSignals restores the default action of ignored signals, such as
// SIGHUP of a server that runs under nohup. The command would inherit them and
// never receive these signals.
func resetIgnoredSignals() {
	for n := uintptr(1); n <= signals; n++ {
		var now action
		if sigaction(n, nil, &now) != 0 || now.handler != sigIgnore {
			continue
		}
		// Fails only for SIGKILL and SIGSTOP, which cannot be ignored.
		_ = sigaction(n, &action{handler: sigDefault}, nil)
	}
}
