//go:build linux && (amd64 || arm64)

// Package seccomp returns the system call filter for agents.
//
// All sandboxes use the same filter; inside a user-space kernel, that kernel applies it.
// The filter refuses the calls that agents do not need, with errors that programs handle.
package seccomp

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// forbidden are calls that affect other processes or use parts of the kernel
// with many vulnerabilities. Agents do not need them. They fail with EPERM.
var forbidden = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_PROCESS_MADVISE, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_NFSSERVCTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MKNODAT,
}

// unimplemented are calls that fail with ENOSYS, after which programs fall back to
// older calls. clone3 and openat2 pass their flags in memory, where a filter cannot
// read them, and io_uring bypasses filters. The contexts of io_setup count towards a limit
// of the whole machine (fs.aio-max-nr), and no control group limits them; libraries fall
// back to threads.
var unimplemented = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_IO_SETUP}

// newestCall is the highest call number that was considered for the lists of this
// package. Calls with higher numbers fail with ENOSYS.
const newestCall = unix.SYS_OPEN_TREE_ATTR

const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// createFlags are the open flags that use the mode argument. Without them the
// mode register has an undefined value.
const createFlags = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// argMask refuses a call if each of the listed arguments has at least one of its bits
// set.
type argMask struct {
	call uint32
	bits []argBits
}

type argBits struct{ argument, bits uint32 }

// setidBits are the set-user-ID and set-group-ID bits.
const setidBits = unix.S_ISUID | unix.S_ISGID

// maskedCalls refuse separate descriptor tables, overlay whiteouts, and the setuid and
// setgid bits: with ID-mapped mounts, a file with these bits belongs to the server's user
// and group on the host.
// Folders can still inherit the setgid bit from existing folders.
var maskedCalls = []argMask{
	{unix.SYS_CLOSE_RANGE, []argBits{{2, unix.CLOSE_RANGE_UNSHARE}}}, // creates a descriptor table; see cloneRules
	{unix.SYS_FCHMOD, []argBits{{1, setidBits}}},
	{unix.SYS_FCHMODAT, []argBits{{2, setidBits}}},
	{unix.SYS_FCHMODAT2, []argBits{{2, setidBits}}},
	{unix.SYS_MKDIRAT, []argBits{{2, setidBits}}},
	{unix.SYS_OPENAT, []argBits{{2, createFlags}, {3, setidBits}}},
	{unix.SYS_RENAMEAT2, []argBits{{4, unix.RENAME_WHITEOUT}}},
}

const anyBit = 1<<32 - 1

// allowedFamilies are the allowed socket families. Others, such as vsock, which
// reaches the host of a virtual machine, are not restricted by namespaces.
var allowedFamilies = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// Offsets into the kernel's struct seccomp_data.
const (
	numberOffset    = 0
	archOffset      = 4
	argumentsOffset = 16 // six arguments of 8 bytes, the lower half first: both architectures are little-endian
)

// New returns the filter program. Refused calls fail with an error, because
// programs handle errors better than being killed.
func New() ([]unix.SockFilter, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		returnErrno(unix.ENOSYS), // other modes of the processor use other call numbers
		bpf.LoadAbsolute{Off: numberOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newestCall, SkipFalse: 1},
		returnErrno(unix.ENOSYS),
	}
	for _, call := range slices.Concat(forbidden, archForbidden) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: 1}, returnErrno(unix.EPERM))
	}
	for _, call := range unimplemented {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: 1}, returnErrno(unix.ENOSYS))
	}
	for _, m := range slices.Concat(maskedCalls, archMasked) {
		program = append(program, m.instructions()...)
	}
	program = append(program, cloneRules()...)
	program = append(program, limitRules()...)
	program = append(program, socketFilterRules()...)
	program = append(program, seccompRules()...)
	program = append(program, familyRules()...)
	program = append(program, allow)
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("system call filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter, nil
}

func returnErrno(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

func (m argMask) instructions() []bpf.Instruction {
	var body []bpf.Instruction
	for i, a := range m.bits {
		after := 2*(len(m.bits)-i-1) + 1 // offset of the final allow
		body = append(body,
			loadArgument(a.argument),
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: a.bits, SkipFalse: uint8(after)})
	}
	body = append(body, returnErrno(unix.EPERM), allow)
	return forCall(m.call, body...)
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// forCall returns rules that run body for one call and skip it for all others. The
// register must contain the call number, and still does after body was skipped.
func forCall(call uint32, body ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(len(body))}}, body...)
}

func loadArgument(n uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: argumentsOffset + 8*n, Size: 4}
}

// cloneRules refuses new namespaces and threads with their own descriptor
// table. Programs do not create such threads, and diskusage reads only one
// descriptor table per process.
func cloneRules() []bpf.Instruction {
	return forCall(unix.SYS_CLONE,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLONE_THREAD, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLONE_FILES, SkipTrue: 1},
		allow,
		returnErrno(unix.EPERM),
	)
}

// limitRules refuses to change the limits of other processes, because init may
// have the same user ID; PID 0 is the caller. The core dump limit cannot be
// changed: a limit of 0 would not prevent dumps to a host program. Programs
// set it to prevent dumps and may treat an error as fatal, so the call has no
// effect and returns success.
func limitRules() []bpf.Instruction {
	success := returnErrno(0)
	own := forCall(unix.SYS_PRLIMIT64,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: anyBit, SkipTrue: 7},
		loadArgument(1),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.RLIMIT_CORE, SkipTrue: 4},
		loadArgument(2), // new limit
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: anyBit, SkipTrue: 4},
		bpf.LoadAbsolute{Off: argumentsOffset + 8*2 + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: anyBit, SkipTrue: 2},
		allow,
		returnErrno(unix.EPERM),
		success,
	)
	return append(own, forCall(unix.SYS_SETRLIMIT,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.RLIMIT_CORE, SkipTrue: 1},
		success,
		allow,
	)...)
}

// attachOptions are the socket options that attach a BPF program to a socket.
var attachOptions = []uint32{unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF}

// socketFilterRules refuses to attach BPF programs to sockets. Compiled
// programs use memory that the whole machine shares (net.core.bpf_jit_limit)
// and that no control group counts. Releasing many at once deadlocks the
// kernel's work queue, after which no process on the machine can install a
// seccomp filter.
func socketFilterRules() []bpf.Instruction {
	body := []bpf.Instruction{
		loadArgument(1),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOL_SOCKET, SkipTrue: uint8(len(attachOptions) + 1)},
		loadArgument(2),
	}
	for i, option := range attachOptions {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: option, SkipTrue: uint8(len(attachOptions) - i)})
	}
	return forCall(unix.SYS_SETSOCKOPT, append(body, allow, returnErrno(unix.ENOPROTOOPT))...)
}

// seccompRules refuses to install seccomp filters, which use the same memory as
// socket filters. The error is that of a kernel without seccomp filters, which
// programs handle.
func seccompRules() []bpf.Instruction {
	install := forCall(unix.SYS_SECCOMP,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SECCOMP_SET_MODE_FILTER, SkipTrue: 1},
		returnErrno(unix.EINVAL),
		allow,
	)
	return append(install, forCall(unix.SYS_PRCTL,
		loadArgument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PR_SET_SECCOMP, SkipTrue: 3},
		loadArgument(1),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SECCOMP_MODE_FILTER, SkipTrue: 1},
		returnErrno(unix.EINVAL),
		allow,
	)...)
}

// familyRules refuses sockets of families that are not allowed. These rules must be
// the last before the final allow: for an allowed family they continue there, and the
// register no longer contains the call number.
func familyRules() []bpf.Instruction {
	body := []bpf.Instruction{loadArgument(0)}
	for i, f := range allowedFamilies {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: f, SkipTrue: uint8(len(allowedFamilies) - i)})
	}
	body = append(body, returnErrno(unix.EAFNOSUPPORT))
	return forCall(unix.SYS_SOCKET, body...)
}
