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

// reserved are the signals that the Go runtime leaves to C libraries.
var reservedSignals = []uintptr{32, 33, 34}

// unheard is the address of a handler that does nothing.
var noopHandler uintptr

// handleReserved gives the reserved signals a handler where they have none. The
// kernel drops what a PID namespace's first process does not handle, but not
// while that is blocked, as everything is during a handler: then the default
// action ends the process. To ignore them would not do, for a command inherits
// that; the runtime's own handler dies of what it does not expect.
func handleReservedSignals() {
	var heard action // its flags and what returns from it serve ours
	if sigaction(uintptr(unix.SIGUSR1), nil, &heard) != 0 {
		return
	}
	for _, n := range reservedSignals {
		var now action
		if sigaction(n, nil, &now) == 0 && now.handler <= sigIgnore {
			now = heard
			now.handler = noopHandler
			_ = sigaction(n, &now, nil) // of no signal but SIGKILL and SIGSTOP it fails
		}
	}
}

func sigaction(n uintptr, set, was *action) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
	return errno
}

// hearSignals ends the ignoring of signals that the server was started with, as
// nohup does: a command would inherit it, and its signals to itself would be
// lost.
func resetIgnoredSignals() {
	for n := uintptr(1); n <= signals; n++ {
		var now action
		if sigaction(n, nil, &now) != 0 || now.handler != sigIgnore {
			continue
		}
		// Only of SIGKILL and SIGSTOP this fails, and nobody ignores those.
		_ = sigaction(n, &action{handler: sigDefault}, nil)
	}
}
