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

// traced is a child process that is killed directly after the n-th system call
// that changes a folder.
type traced struct {
	dir  string
	env  []string
	left int // steps before it is killed; more than 0 if it ended by itself

	steps   []string       // that were executed
	pending map[int]string // the current step of each thread
	written map[string]int // writes to each temporary file
	killed  bool
}

// changingCalls are the system calls that change a folder. The value reports
// whether the first argument is a file; otherwise it is a folder, and the
// second one is a path in it.
var changingCalls = map[uint64]struct {
	name string
	at   bool
}{
	unix.SYS_WRITE: {"write", false}, unix.SYS_PWRITE64: {"write", false}, unix.SYS_FTRUNCATE: {"truncate", false},
	unix.SYS_OPENAT: {"create", true}, unix.SYS_MKDIRAT: {"mkdir", true}, unix.SYS_LINKAT: {"link", true},
	unix.SYS_RENAMEAT: {"rename", true}, unix.SYS_RENAMEAT2: {"rename", true}, unix.SYS_UNLINKAT: {"unlink", true},
}

// callInfo is the kernel's description of a thread's current system call.
type callInfo struct {
	Op     uint8 // 1 before, 2 after
	_      [3]uint8
	_      uint32
	_, _   uint64
	Number uint64 // after the call, its result
	Args   [6]uint64
}

// run starts this program for TestSoakCrashes, with its output in a file, and
// waits until it ends.
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

// stopped returns the signal with which a stopped thread continues.
func (c *traced) stopped(pid, thread int, signal unix.Signal) (int, error) {
	switch signal {
	case unix.SIGTRAP | 0x80: // at a system call
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

// step returns the name of the step that a call is, "" for none. Of the writes
// to a temporary file only the first two count, because later ones change only
// its length. Syncs do not count, because no process can observe them.
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

// creates reports whether opening a file creates or truncates it.
func creates(path string, flags uint64) bool {
	_, err := os.Lstat(path)
	return flags&unix.O_TRUNC != 0 || flags&unix.O_CREAT != 0 && err != nil
}

// textAt reads a string in the memory of a process.
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
