package filter

import "golang.org/x/sys/unix"

const machine = unix.AUDIT_ARCH_X86_64

// oldForbidden and oldMasked are calls that later machines have no more. The
// x32 mode, whose numbers are all beyond the newest, is absent with them.
var oldForbidden = []uint32{unix.SYS_MKNOD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_CREATE_MODULE, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}

var oldMasked = []masks{
	{unix.SYS_CHMOD, []argumentBits{{1, raised}}},
	{unix.SYS_MKDIR, []argumentBits{{1, raised}}},
	{unix.SYS_CREAT, []argumentBits{{1, raised}}},
	{unix.SYS_OPEN, []argumentBits{{1, creating}, {2, raised}}},
}
