package sandboxtest

import (
	"errors"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { programsByName["call-32bit"] = call32BitProgram }

// machineAttempts returns the attempts that are specific to amd64: privileged
// processor settings, and system calls in x32 and 32-bit mode. The system calls of
// these modes have other numbers, which could bypass a filter.
func machineAttempts() []attempt {
	p := uintptr(unsafe.Pointer(&scratchMemory))
	return []attempt{
		{"modify_ldt", syscallAttempt(unix.SYS_MODIFY_LDT, 0, p, 64), allowedInNamespaces | allowedByOwnKernel},
		{"iopl", syscallAttempt(unix.SYS_IOPL, 3), 0},
		{"ioperm", syscallAttempt(unix.SYS_IOPERM, 0x80, 1, 1), 0},
		{"unshare in x32 mode", syscallAttempt(0x4000_0000|unix.SYS_UNSHARE, unix.CLONE_NEWNS), allowedByOwnKernel},
		{"unshare in 32-bit mode", call32Bit, allowedByOwnKernel},
	}
}

// call32Bit makes a 32-bit system call in a child process. If the kernel does not
// support 32-bit system calls, it kills the child.
func call32Bit() error {
	c := exec.Command("/proc/self/exe")
	c.Args = []string{programName, "call-32bit"}
	out, err := c.CombinedOutput()
	if err != nil {
		return errors.New("the call killed the process")
	}
	if string(out) != "through" {
		return errors.New(string(out))
	}
	return nil
}

// call32BitProgram tries to create a mount namespace with a 32-bit system call. It
// prints "through" on success, otherwise the error.
func call32BitProgram(g Program, _ []string) error {
	code := []byte{
		0x53,                         // push rbx
		0xbb, 0x00, 0x00, 0x02, 0x00, // mov ebx, CLONE_NEWNS
		0xb8, 0x36, 0x01, 0x00, 0x00, // mov eax, unshare
		0xcd, 0x80, // int 0x80
		0x5b,             // pop rbx
		0x48, 0x63, 0xc0, // movsxd rax, eax
		0xc3, // ret
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	copy(page, code)
	entry := unsafe.Pointer(&page[0])
	function := unsafe.Pointer(&entry) // a func value is a pointer to a pointer to its code
	call := *(*func() int)(unsafe.Pointer(&function))
	answer := "through"
	if errno := call(); errno < 0 {
		answer = unix.Errno(-errno).Error()
	}
	_, err = g.Stdout.Write([]byte(answer))
	return err
}
