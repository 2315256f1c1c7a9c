package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archForbidden and archMasked are empty: arm64 never had these calls.
var (
	archForbidden []uint32
	archMasked    []argMask
)
