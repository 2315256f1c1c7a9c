package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// archForbidden and archMasked are calls that newer architectures do not have.
// The x32 mode is refused too, because its call numbers are above newestCall.
var archForbidden = []uint32{unix.SYS_MKNOD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_CREATE_MODULE, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}

var archMasked = []argMask{
	{unix.SYS_CHMOD, []argBits{{1, setidBits}}},
	{unix.SYS_MKDIR, []argBits{{1, setidBits}}},
	{unix.SYS_CREAT, []argBits{{1, setidBits}}},
	{unix.SYS_OPEN, []argBits{{1, createFlags}, {2, setidBits}}},
}
