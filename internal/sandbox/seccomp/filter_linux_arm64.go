package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archForbidden and archMasked are calls that this machine never had.
var (
	archForbidden []uint32
	archMasked    []argMask
)
