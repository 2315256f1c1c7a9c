//go:build linux && (amd64 || arm64)

package warden

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
	byDefault = 0 // SIG_DFL
	ignored   = 1 // SIG_IGN
	signals   = 64
)

// hearSignals ends the ignoring of signals that the server was started with, as
// nohup does: a command would inherit it, and its signals to itself would be
// lost.
func hearSignals() {
	for n := uintptr(1); n <= signals; n++ {
		var now action
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0); errno != 0 || now.handler != ignored {
			continue
		}
		now = action{handler: byDefault}
		// Only of SIGKILL and SIGSTOP this fails, and nobody ignores those.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(&now)), 0, 8, 0, 0)
	}
}
