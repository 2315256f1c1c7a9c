//go:build linux && (amd64 || arm64)

package seccomp_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/seccomp"
)

const (
	thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	high   = 1 << 32 // an address with zeros in its lower 32 bits
)

func refused(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

func TestFilter(t *testing.T) {
	t.Parallel()
	run := runFilter(t)
	const allowed = unix.SECCOMP_RET_ALLOW
	for _, c := range []struct {
		name string
		call uint32
		args []uint64
		want uint32
	}{
		{"read", unix.SYS_READ, nil, allowed},
		{"mount", unix.SYS_MOUNT, nil, refused(unix.EPERM)},
		{"an unknown call", 5000, nil, refused(unix.ENOSYS)},
		{"clone of a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allowed},
		{"clone of a thread", unix.SYS_CLONE, []uint64{thread | unix.CLONE_FILES}, allowed},
		{"clone of a thread with its own descriptor table", unix.SYS_CLONE, []uint64{thread}, refused(unix.EPERM)},
		{"clone with a new namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, refused(unix.EPERM)},
		{"close_range", unix.SYS_CLOSE_RANGE, []uint64{3, 1 << 31, unix.CLOSE_RANGE_CLOEXEC}, allowed},
		{"close_range with its own descriptor table", unix.SYS_CLOSE_RANGE, []uint64{3, 1 << 31, unix.CLOSE_RANGE_UNSHARE}, refused(unix.EPERM)},
		{"prlimit reads a limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, high}, allowed},
		{"prlimit sets a limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 8}, allowed},
		{"prlimit sets a limit of another process", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE, 8}, refused(unix.EPERM)},
		{"prlimit sets the core limit of another process", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_CORE, 8}, refused(unix.EPERM)},
		{"prlimit sets the core limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 8}, refused(0)},
		{"prlimit sets the core limit from a high address", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, high}, refused(0)},
		{"setrlimit sets the core limit", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 8}, refused(0)},
		{"setrlimit sets a limit", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_NOFILE, 8}, allowed},
		{"a socket", unix.SYS_SOCKET, []uint64{unix.AF_INET}, allowed},
		{"a vsock socket", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, refused(unix.EAFNOSUPPORT)},
		{"a socket option", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, allowed},
		{"an option of another level with the same number", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER}, allowed},
		{"a socket filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, refused(unix.ENOPROTOOPT)},
		{"an eBPF socket filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_BPF}, refused(unix.ENOPROTOOPT)},
		{"a reuseport filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF}, refused(unix.ENOPROTOOPT)},
		{"an eBPF reuseport filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF}, refused(unix.ENOPROTOOPT)},
		{"removing a socket filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_DETACH_FILTER}, allowed},
		{"a seccomp filter", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_SET_MODE_FILTER}, refused(unix.EINVAL)},
		{"seccomp's strict mode", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_SET_MODE_STRICT}, allowed},
		{"available seccomp actions", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_GET_ACTION_AVAIL}, allowed},
		{"a seccomp filter by prctl", unix.SYS_PRCTL, []uint64{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER}, refused(unix.EINVAL)},
		{"strict mode by prctl", unix.SYS_PRCTL, []uint64{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_STRICT}, allowed},
		{"a process name", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME, unix.SECCOMP_MODE_FILTER}, allowed},
		{"an AIO context", unix.SYS_IO_SETUP, []uint64{1}, refused(unix.ENOSYS)},
	} {
		if got := run(c.call, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

// runFilter returns a function that runs the filter for one system call, in the virtual
// machine of package bpf, and returns the filter's result. This virtual machine reads
// big-endian numbers.
func runFilter(t *testing.T) func(call uint32, args ...uint64) uint32 {
	t.Helper()
	program, err := seccomp.New()
	if err != nil {
		t.Fatal(err)
	}
	instructions := make([]bpf.Instruction, len(program))
	for i, f := range program {
		instructions[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble()
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	return func(call uint32, args ...uint64) uint32 {
		data := make([]byte, 64)
		binary.BigEndian.PutUint32(data, call)
		binary.BigEndian.PutUint32(data[4:], arch)
		for i, a := range args {
			binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
			binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
		}
		verdict, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(verdict)
	}
}
