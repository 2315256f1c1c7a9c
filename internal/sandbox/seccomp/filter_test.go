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
	high   = 1 << 32 // a pointer may have nothing in its lower half
)

func refused(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

func TestCalls(t *testing.T) {
	t.Parallel()
	run := auditArch(t)
	const allowed = unix.SECCOMP_RET_ALLOW
	for _, c := range []struct {
		name string
		call uint32
		args []uint64
		want uint32
	}{
		{"reading", unix.SYS_READ, nil, allowed},
		{"mounting", unix.SYS_MOUNT, nil, refused(unix.EPERM)},
		{"a call of tomorrow", 5000, nil, refused(unix.ENOSYS)},
		{"a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allowed},
		{"a thread", unix.SYS_CLONE, []uint64{thread | unix.CLONE_FILES}, allowed},
		{"a thread with descriptors of its own", unix.SYS_CLONE, []uint64{thread}, refused(unix.EPERM)},
		{"a namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, refused(unix.EPERM)},
		{"closing descriptors", unix.SYS_CLOSE_RANGE, []uint64{3, 1 << 31, unix.CLOSE_RANGE_CLOEXEC}, allowed},
		{"descriptors of its own", unix.SYS_CLOSE_RANGE, []uint64{3, 1 << 31, unix.CLOSE_RANGE_UNSHARE}, refused(unix.EPERM)},
		{"reading a limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, high}, allowed},
		{"setting a limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 8}, allowed},
		{"another's limit", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE, 8}, refused(unix.EPERM)},
		{"another's core dumps", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_CORE, 8}, refused(unix.EPERM)},
		{"core dumps", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 8}, refused(0)},
		{"core dumps from far", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, high}, refused(0)},
		{"core dumps, the old way", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 8}, refused(0)},
		{"a limit, the old way", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_NOFILE, 8}, allowed},
		{"a socket", unix.SYS_SOCKET, []uint64{unix.AF_INET}, allowed},
		{"a machine's socket", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, refused(unix.EAFNOSUPPORT)},
		{"a socket option", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, allowed},
		{"an option of another level with the same number", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER}, allowed},
		{"a socket filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, refused(unix.ENOPROTOOPT)},
		{"a loaded socket filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_BPF}, refused(unix.ENOPROTOOPT)},
		{"a port group's filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF}, refused(unix.ENOPROTOOPT)},
		{"a port group's loaded filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_EBPF}, refused(unix.ENOPROTOOPT)},
		{"removing a socket filter", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_DETACH_FILTER}, allowed},
		{"a seccomp filter", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_SET_MODE_FILTER}, refused(unix.EINVAL)},
		{"seccomp's strict mode", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_SET_MODE_STRICT}, allowed},
		{"which seccomp actions there are", unix.SYS_SECCOMP, []uint64{unix.SECCOMP_GET_ACTION_AVAIL}, allowed},
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

// machine runs the filter as the kernel would, but with numbers as the virtual
// machine of networks has them: their highest byte first.
func auditArch(t *testing.T) func(call uint32, args ...uint64) uint32 {
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
