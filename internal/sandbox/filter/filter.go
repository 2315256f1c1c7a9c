//go:build linux && (amd64 || arm64)

// Package filter answers: which system calls may an agent make?
//
// It is one list for all sandboxes whose agents call this kernel. It goes by
// what no agent needs, and refuses by errors that programs handle.
package filter

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// forbidden are calls with which a process reaches past its own affairs, or
// into parts of the kernel that fail often: no agent needs them.
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

// absent are calls whose callers have an older one to fall back to: clone3 and
// openat2 hide their flags from a filter, io_uring does its work past it.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// newest is the last call that these lists know of. What comes after it is
// absent too.
const newest = unix.SYS_OPEN_TREE_ATTR

const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// creating are the flags with which opening takes a mode; without them it is
// whatever stood in the register.
const creating = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// masks refuse a call when each of its named arguments has one of the bits.
type masks struct {
	call uint32
	bits []argumentBits
}

type argumentBits struct{ argument, bits uint32 }

// raised are the bits that give a program its owner's or group's rights.
const raised = unix.S_ISUID | unix.S_ISGID

// masked refuse new namespaces, marks that tell an overlay that a file is gone,
// the limits of other processes, of which the
// sandbox's first may be one of the same user, and the setuid and setgid bits on files: with
// ID-mapped mounts they belong to the server's user and group outside. Folders
// inherit a group's bit all the same, from folders that came with it.
var masked = []masks{
	{unix.SYS_CLONE, []argumentBits{{0, namespaceFlags}}},
	{unix.SYS_FCHMOD, []argumentBits{{1, raised}}},
	{unix.SYS_FCHMODAT, []argumentBits{{2, raised}}},
	{unix.SYS_FCHMODAT2, []argumentBits{{2, raised}}},
	{unix.SYS_MKDIRAT, []argumentBits{{2, raised}}},
	{unix.SYS_OPENAT, []argumentBits{{2, creating}, {3, raised}}},
	{unix.SYS_PRLIMIT64, []argumentBits{{0, anyBit}}}, // another process's limits; 0 is one's own
	{unix.SYS_RENAMEAT2, []argumentBits{{4, unix.RENAME_WHITEOUT}}},
}

const anyBit = 1<<32 - 1

// families are the sockets that there are. A virtual machine's vsock, which
// reaches its host, knows no namespace.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// Offsets into the kernel's struct seccomp_data.
const (
	numberOffset    = 0
	machineOffset   = 4
	argumentsOffset = 16 // 8 bytes each, the lower half first: both machines are little-endian
)

// New makes the program that each call of an agent must pass. All that is
// refused is refused by an error, which programs handle better than death.
func New() ([]unix.SockFilter, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: machineOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: machine, SkipTrue: 1},
		refuse(unix.ENOSYS), // the processor's other modes number calls otherwise
		bpf.LoadAbsolute{Off: numberOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: 1},
		refuse(unix.ENOSYS),
	}
	for _, call := range slices.Concat(forbidden, oldForbidden) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: 1}, refuse(unix.EPERM))
	}
	for _, call := range absent {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: 1}, refuse(unix.ENOSYS))
	}
	for _, m := range slices.Concat(masked, oldMasked) {
		program = append(program, m.instructions()...)
	}
	program = append(program, otherFamilies()...)
	program = append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
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

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// instructions expect the call's number in the register, and leave it there
// unless it is this call's: then they settle the matter.
func (m masks) instructions() []bpf.Instruction {
	var body []bpf.Instruction
	for i, a := range m.bits {
		after := 2*(len(m.bits)-i-1) + 1 // to the allowing end
		body = append(body,
			bpf.LoadAbsolute{Off: argumentsOffset + 8*a.argument, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: a.bits, SkipFalse: uint8(after)})
	}
	body = append(body, refuse(unix.EPERM), bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: m.call, SkipTrue: uint8(len(body))}}, body...)
}

// otherFamilies come last: a call that is not socket falls through to the end.
func otherFamilies() []bpf.Instruction {
	body := []bpf.Instruction{bpf.LoadAbsolute{Off: argumentsOffset, Size: 4}}
	for i, f := range families {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: f, SkipTrue: uint8(len(families) - i)})
	}
	body = append(body, refuse(unix.EAFNOSUPPORT))
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_SOCKET, SkipTrue: uint8(len(body))}}, body...)
}
