package filter

import "golang.org/x/sys/unix"

const machine = unix.AUDIT_ARCH_AARCH64

// oldForbidden and oldMasked are calls that this machine never had.
var (
	oldForbidden []uint32
	oldMasked    []masks
)
