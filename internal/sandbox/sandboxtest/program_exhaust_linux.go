package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	programsByName["neighbor"] = neighborProgram
	programsByName["use-memory"] = useMemoryProgram
	programsByName["use-disk"] = useDiskProgram
	programsByName["fork-tree"] = forkTreeProgram
	programsByName["threads"] = threadsProgram
	programsByName["write-output"] = writeOutputProgram
	programsByName["exhaust"] = exhaustPerUserProgram
	programsByName["allocate-one"] = allocateOneProgram
	programsByName["keep-writing"] = keepWritingProgram
	programsByName["swap"] = swapProgram
}

// neighborProgram repeats the work of a normal agent until its standard input ends. It
// fails at the first error, because then another sandbox affects this one.
func neighborProgram(g Program, _ []string) error {
	end := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, g.Stdin)
		close(end)
	}()
	for last := false; ; {
		if err := normalWork(); err != nil {
			return fmt.Errorf("a neighbor is affected: %w", err)
		}
		if last {
			_, err := io.WriteString(g.Stdout, "done\n")
			return err
		}
		if _, err := io.WriteString(g.Stdout, "ready\n"); err != nil {
			return err
		}
		select {
		case <-end:
			last = true
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func normalWork() error {
	page := bytes.Repeat([]byte("x"), 256<<10)
	for _, dir := range []string{".", "/tmp", "/dev/shm"} {
		path := filepath.Join(dir, "honest")
		if err := os.WriteFile(path, page, 0o600); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := child(&syscall.SysProcAttr{}); err != nil {
		return err
	}
	return loopbackProgram(Program{}, nil)
}

// useMemoryProgram allocates args[1] megabytes of memory. args[0] is a key of memoryUses. If
// the allocation succeeds, the program writes "allocated".
func useMemoryProgram(g Program, args []string) error {
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := memoryUses[args[0]](mb); err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.Stdout, "allocated %d\n", mb)
	return err
}

var memoryUses = map[string]func(mb int) error{
	"shared memory": func(mb int) error { return writeMegabytes("/dev/shm/hoard", mb) },
	"memfd files": func(mb int) error {
		fd, err := unix.MemfdCreate("use-memory", 0)
		if err != nil {
			return err
		}
		return writeMegabytes(fmt.Sprintf("/proc/self/fd/%d", fd), mb)
	},
	"a shared mapping": func(mb int) error {
		m, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
		touchPages(m)
		return err
	},
	"a System V segment": func(mb int) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, mb<<20, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		m, err := unix.SysvShmAttach(id, 0, 0)
		touchPages(m)
		return err
	},
	"many processes": allocateInChildren,
}

// allocateInChildren starts eight processes that each allocate an eighth of mb megabytes.
// The processes run until all of them have allocated their part.
func allocateInChildren(mb int) error {
	until, stay, err := os.Pipe()
	if err != nil {
		return err
	}
	fed := make(chan error, 8)
	for range cap(fed) {
		c := exec.Command("/proc/self/exe")
		c.Args, c.Stdin, c.Stderr = []string{programName, "allocate", strconv.Itoa(mb / cap(fed))}, until, os.Stderr
		said, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		go func() {
			_, err := said.Read(make([]byte, 1))
			fed <- err
		}()
	}
	for range cap(fed) {
		if err := <-fed; err != nil {
			return fmt.Errorf("a child failed: %w", err)
		}
	}
	return stay.Close()
}

func touchPages(m []byte) {
	for i := 0; i < len(m); i += 4096 {
		m[i] = 1
	}
}

// writeMegabytes writes mb megabytes to a file and leaves it open.
func writeMegabytes(path string, mb int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return writeMegabytesTo(f, mb)
}

func writeMegabytesTo(f *os.File, mb int) error {
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range mb {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// useDiskProgram uses at least args[1] megabytes of disk space, and keeps running. args[0]
// is a key of diskUses.
func useDiskProgram(g Program, args []string) error {
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := diskUses[args[0]](mb); err != nil {
		return err
	}
	return ignoreTermProgram(g, nil)
}

var diskUses = map[string]func(mb int) error{
	"the workspace": func(mb int) error { return writeMegabytes("waste", mb) },
	"the home":      func(mb int) error { return writeMegabytes("/home/agent/waste", mb) },
	"tmp":           func(mb int) error { return writeMegabytes("/tmp/waste", mb) },
	"preallocated space": func(mb int) error {
		f, err := os.Create("ahead")
		if err != nil {
			return err
		}
		return unix.Fallocate(int(f.Fd()), 0, 0, int64(mb)<<20)
	},
	"a sparse file": func(mb int) error {
		f, err := os.Create("hole")
		if err != nil {
			return err
		}
		if err := f.Truncate(1 << 40); err != nil {
			return err
		}
		if _, err := f.Seek(1<<39, io.SeekStart); err != nil {
			return err
		}
		return writeMegabytesTo(f, mb)
	},
	"a mapped file": func(mb int) error {
		f, err := os.Create("mapped")
		if err != nil {
			return err
		}
		if err := f.Truncate(int64(mb) << 20); err != nil {
			return err
		}
		m, err := unix.Mmap(int(f.Fd()), 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		touchPages(m)
		return err
	},
	"a deleted file": func(mb int) error {
		f, err := os.Create("deleted")
		if err != nil {
			return err
		}
		if err := os.Remove("deleted"); err != nil {
			return err
		}
		keptFile = f
		return writeMegabytesTo(f, mb)
	},
	"an unnamed file": func(mb int) error {
		fd, err := unix.Open("/tmp", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return writeMegabytes("/tmp/waste", mb) // the file system may not support O_TMPFILE
		}
		keptFile = os.NewFile(uintptr(fd), "nameless")
		return writeMegabytesTo(keptFile, mb)
	},
	"an inaccessible folder": func(mb int) error {
		if err := os.MkdirAll("locked/below", 0o700); err != nil {
			return err
		}
		f, err := os.Create("locked/below/waste")
		if err != nil {
			return err
		}
		if err := errors.Join(os.Chmod("locked/below", 0), os.Chmod("locked", 0)); err != nil {
			return err
		}
		return writeMegabytesTo(f, mb)
	},
	"many files": func(mb int) error { // creates empty files, each of which uses an inode of the host
		for i := range mb << 8 {
			if i%1000 == 0 {
				if err := os.Mkdir(fmt.Sprintf("many%d", i/1000), 0o700); err != nil {
					return err
				}
			}
			if err := os.WriteFile(fmt.Sprintf("many%d/%d", i/1000, i), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	},
}

// keptFile refers to a file that must stay open while the process runs. Without a
// reference, the garbage collector would close it.
var keptFile *os.File

// forkTreeProgram starts two copies of itself, which do the same down to the depth args[1].
// All these processes ignore SIGTERM. args[0] is a marker in their command lines.
func forkTreeProgram(g Program, args []string) error {
	depth, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if depth == 0 {
		return ignoreTermProgram(g, nil)
	}
	end := time.Now().Add(20 * time.Second) // limits the runtime if the test fails
	for made := 0; made < 2 && time.Now().Before(end); {
		if _, err := startAgain(g, true, "fork-tree", args[0], strconv.Itoa(depth-1)); err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		made++
	}
	return ignoreTermProgram(g, nil)
}

// threadsProgram creates args[0] threads and writes a line after every hundred threads.
func threadsProgram(g Program, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	up := make(chan struct{})
	for i := range n {
		go func() {
			runtime.LockOSThread()
			up <- struct{}{}
			select {} // keeps the thread, so the next goroutine needs a new thread
		}()
		<-up
		if (i+1)%100 == 0 {
			fmt.Fprintf(g.Stdout, "%d threads\n", i+1)
		}
	}
	return nil
}

// writeOutputProgram writes args[0] megabytes to stdout as fast as possible, and records
// the number of bytes written so far in the file progress.
func writeOutputProgram(g Program, args []string) error {
	mb, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte("torrent\n"), 8<<10)
	note, err := os.Create("progress")
	if err != nil {
		return err
	}
	for i := 0; i < mb<<20; i += len(block) {
		if _, err := note.WriteAt(fmt.Appendf(nil, "%12d", i), 0); err != nil {
			return err
		}
		if _, err := g.Stdout.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// exhaustPerUserProgram allocates units of the resource args[0], which the kernel limits per
// user. It stops at the first failure or after 8192 units, and keeps running.
func exhaustPerUserProgram(g Program, args []string) error {
	take, n := perUserResources[args[0]], 0
	for ; n < 8192 && take() == nil; n++ {
	}
	fmt.Fprintf(g.Stderr, "%d\n", n)
	return ignoreTermProgram(g, nil)
}

// perUserResources maps each resource to a function that allocates one more unit of it
// and keeps it until the process ends.
var perUserResources = map[string]func() error{
	"inotify instances": func() error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err },
	"pipes": func() error {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
			return err
		}
		_, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 1<<20)
		return err
	},
	"segments": func() error { _, err := newSegment(); return err },
	"ports": func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return err
		}
		return unix.Listen(fd, 1)
	},
}

// allocateOneProgram succeeds if one more unit of the resource args[0] can be
// allocated. It removes a shared memory segment again, because a segment on the host
// would remain after the process's end.
func allocateOneProgram(_ Program, args []string) error {
	if args[0] != "segments" {
		return perUserResources[args[0]]()
	}
	id, err := newSegment()
	if err == nil {
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
	return err
}

func newSegment() (int, error) {
	return unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
}

// keepWritingProgram starts a second process that keeps writing to the same output, and
// ends. args[0] is a marker in the command lines. Only the second process has args[1].
func keepWritingProgram(g Program, args []string) error {
	if len(args) > 1 {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			if _, err := io.WriteString(g.Stdout, strings.Repeat("babble\n", 1000)); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := startAgain(g, false, "keep-writing", args[0], "on")
	return err
}

// swapProgram repeatedly exchanges a folder with a symbolic link to the folder
// args[0].
func swapProgram(g Program, args []string) error {
	for _, dir := range []string{"d/sub", "other"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Symlink(args[0], "l"), os.Symlink(args[0], "other/l")); err != nil {
		return err
	}
	if _, err := io.WriteString(g.Stdout, "ready\n"); err != nil {
		return err
	}
	for range 20_000 {
		if err := unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "l", unix.RENAME_EXCHANGE); err != nil {
			return err
		}
	}
	_, err := io.WriteString(g.Stdout, "done\n")
	return err
}
