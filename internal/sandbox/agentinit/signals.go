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

// handleReservedSignals installs a handler for each reserved signal. The kernel
// drops unhandled signals to the first process of a PID namespace, except while the
// signal is blocked. All signals are blocked while a handler runs; a signal that
// arrives then would end init. The handler must do nothing: the command would
// inherit SIG_IGN, and the Go runtime's handler aborts on signals that it does not
// expect.
func handleReservedSignals() {
	var heard action // a handler of the Go runtime, for its flags and restorer
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
// SIGHUP if the server runs under nohup. Otherwise the command would ignore them
// too.
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
