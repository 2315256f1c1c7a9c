package files_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traced is a child process that is killed directly after a given number of steps.
// A step is a system call that changes a file or folder in dir.
type traced struct {
	dir  string
	env  []string
	left int // steps until the process is killed; above 0 after run if the process was not killed

	steps   []string       // executed steps
	pending map[int]string // the current step of each thread
	written map[string]int // writes to each temporary file
	killed  bool
}

// changingCalls are the system calls that can change a folder. The first argument
// of a call is a file descriptor. If at is true, the descriptor is that of a folder,
// and the second argument is a path relative to the folder.
var changingCalls = map[uint64]struct {
	name string
	at   bool
}{
	unix.SYS_WRITE: {"write", false}, unix.SYS_PWRITE64: {"write", false}, unix.SYS_FTRUNCATE: {"truncate", false},
	unix.SYS_OPENAT: {"create", true}, unix.SYS_MKDIRAT: {"mkdir", true}, unix.SYS_LINKAT: {"link", true},
	unix.SYS_RENAMEAT: {"rename", true}, unix.SYS_RENAMEAT2: {"rename", true}, unix.SYS_UNLINKAT: {"unlink", true},
}

// callInfo is the beginning of struct ptrace_syscall_info of Linux, which describes
// the current system call of a thread.
type callInfo struct {
	Op     uint8 // 1 at the entry of the call, 2 at its exit
	_      [3]uint8
	_      uint32
	_, _   uint64
	Number uint64 // number of the call at its entry; result of the call at its exit
	Args   [6]uint64
}

// run executes TestSoakCrashes in a traced child process and waits until the process
// ends. It writes the output of the process to the file output.
func (c *traced) run(output string) error {
	runtime.LockOSThread() // only this thread may trace
	defer runtime.UnlockOSThread()
	c.pending, c.written = map[int]string{}, map[string]int{}
	out, err := os.Create(output)
	if err != nil {
		return err
	}
	defer out.Close()
	pid, err := syscall.ForkExec(os.Args[0], []string{os.Args[0], "-test.run=^TestSoakCrashes$", "-test.count=1"}, &syscall.ProcAttr{
		Env:   append(os.Environ(), c.env...),
		Files: []uintptr{0, out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		return err
	}
	status, err := c.follow(pid)
	switch {
	case err != nil:
		return errors.Join(err, unix.Kill(pid, unix.SIGKILL))
	case c.killed || status.ExitStatus() == 0:
		return nil
	}
	return fmt.Errorf("it ended with status %#x", uint32(status))
}

func (c *traced) follow(pid int) (status unix.WaitStatus, err error) {
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return status, err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return status, err
	}
	for thread, signal := pid, 0; ; {
		if err := unix.PtraceSyscall(thread, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return status, err
		}
		for {
			if thread, err = unix.Wait4(-pid, &status, unix.WALL, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return status, err
			}
			if err == nil && status.Stopped() {
				break
			}
			if thread == pid && (status.Exited() || status.Signaled()) {
				return status, nil
			}
		}
		if signal, err = c.stopped(pid, thread, status.StopSignal()); err != nil {
			return status, err
		}
	}
}

// stopped handles the stop of a thread. It returns the signal with which the thread
// must continue; 0 means none.
func (c *traced) stopped(pid, thread int, signal unix.Signal) (int, error) {
	switch signal {
	case unix.SIGTRAP | 0x80: // at the entry or exit of a system call
	case unix.SIGTRAP, unix.SIGSTOP: // a thread was started
		return 0, nil
	default:
		return int(signal), nil
	}
	var call callInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(call), uintptr(unsafe.Pointer(&call)), 0, 0)
	if errno == unix.ESRCH {
		return 0, nil
	} else if errno != 0 {
		return 0, errno
	}
	if call.Op == 1 {
		c.pending[thread] = c.step(pid, &call)
		return 0, nil
	}
	if step := c.pending[thread]; call.Op == 2 && step != "" && int64(call.Number) >= 0 && !c.killed {
		c.steps = append(c.steps, step)
		if c.left--; c.left == 0 {
			c.killed = true
			return 0, unix.Kill(pid, unix.SIGKILL)
		}
	}
	return 0, nil
}

// step returns a description of the step that the system call executes. It returns
// "" if the call is not a step. Only the first two writes to a temporary file are
// steps, because later ones change only its length. Syncs are not steps, because
// other processes cannot observe them.
func (c *traced) step(pid int, call *callInfo) string {
	change, ok := changingCalls[call.Number]
	if !ok {
		return ""
	}
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(call.Args[0])))
	if change.at {
		path = filepath.Join(path, textAt(pid, call.Args[1]))
	}
	if !strings.HasPrefix(path, c.dir) || call.Number == unix.SYS_OPENAT && !creates(path, call.Args[2]) {
		return ""
	}
	if change.name == "write" && strings.HasPrefix(path, c.dir+"/blobs/tmp/") {
		if c.written[path]++; c.written[path] > 2 {
			return ""
		}
	}
	return change.name + " " + strings.TrimPrefix(path, c.dir+"/")
}

// creates reports whether opening path with the given flags creates or truncates
// the file.
func creates(path string, flags uint64) bool {
	_, err := os.Lstat(path)
	return flags&unix.O_TRUNC != 0 || flags&unix.O_CREAT != 0 && err != nil
}

// textAt reads a NUL-terminated string at an address of a process. It returns "" if
// the memory cannot be opened.
func textAt(pid int, address uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer memory.Close()
	b := make([]byte, 4096)
	n, _ := memory.ReadAt(b, int64(address))
	text, _, _ := strings.Cut(string(b[:n]), "\x00")
	return text
}
