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
	programs["bystand"] = bystandProgram
	programs["hoard"] = hoardProgram
	programs["waste"] = wasteProgram
	programs["breed"] = breedProgram
	programs["threads"] = threadsProgram
	programs["torrent"] = torrentProgram
	programs["exhaust"] = exhaustProgram
	programs["take one"] = takesOne
	programs["babble"] = babbleProgram
	programs["swap"] = swapProgram
}

// bystandProgram does what an honest agent does, over and over until its input
// ends, and fails with the first thing that does not work.
func bystandProgram(g Guest, _ []string) error {
	end := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, g.Stdin)
		close(end)
	}()
	for last := false; ; {
		if err := honestWork(); err != nil {
			return fmt.Errorf("a bystander is hurt: %w", err)
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

func honestWork() error {
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
	return loopbackProgram(Guest{}, nil)
}

// hoardProgram takes so many megabytes of one kind of memory, and tells if it
// got them.
func hoardProgram(g Guest, args []string) error {
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := hoards[args[0]](mb); err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.Stdout, "hoarded %d\n", mb)
	return err
}

var hoards = map[string]func(mb int) error{
	"shared memory": func(mb int) error { return pour("/dev/shm/hoard", mb) },
	"memory files": func(mb int) error {
		fd, err := unix.MemfdCreate("hoard", 0)
		if err != nil {
			return err
		}
		return pour(fmt.Sprintf("/proc/self/fd/%d", fd), mb)
	},
	"a shared map": func(mb int) error {
		m, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
		touch(m)
		return err
	},
	"a segment": func(mb int) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, mb<<20, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		m, err := unix.SysvShmAttach(id, 0, 0)
		touch(m)
		return err
	},
	"many processes": crowdEats,
}

// crowdEats has eight processes eat their share, none of which ends before all
// have eaten.
func crowdEats(mb int) error {
	until, stay, err := os.Pipe()
	if err != nil {
		return err
	}
	fed := make(chan error, 8)
	for range cap(fed) {
		c := exec.Command("/proc/self/exe")
		c.Args, c.Stdin, c.Stderr = []string{guestName, "eat", strconv.Itoa(mb / cap(fed))}, until, os.Stderr
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
			return fmt.Errorf("a child was hurt: %w", err)
		}
	}
	return stay.Close()
}

func touch(m []byte) {
	for i := 0; i < len(m); i += 4096 {
		m[i] = 1
	}
}

// pour writes so many megabytes into a file.
func pour(path string, mb int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return pourInto(f, mb)
}

func pourInto(f *os.File, mb int) error {
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range mb {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// wasteProgram fills the disk in one way, beyond so many megabytes, and stays.
func wasteProgram(g Guest, args []string) error {
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := wastes[args[0]](mb); err != nil {
		return err
	}
	return stubbornProgram(g, nil)
}

var wastes = map[string]func(mb int) error{
	"the workspace": func(mb int) error { return pour("waste", mb) },
	"the home":      func(mb int) error { return pour("/home/agent/waste", mb) },
	"tmp":           func(mb int) error { return pour("/tmp/waste", mb) },
	"room ahead": func(mb int) error {
		f, err := os.Create("ahead")
		if err != nil {
			return err
		}
		return unix.Fallocate(int(f.Fd()), 0, 0, int64(mb)<<20)
	},
	"a hole that is filled": func(mb int) error {
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
		return pourInto(f, mb)
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
		touch(m)
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
		held = f
		return pourInto(f, mb)
	},
	"a file without a name": func(mb int) error {
		fd, err := unix.Open("/tmp", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return pour("/tmp/waste", mb) // not every file system has them
		}
		held = os.NewFile(uintptr(fd), "nameless")
		return pourInto(held, mb)
	},
	"a locked folder": func(mb int) error {
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
		return pourInto(f, mb)
	},
	"many files": func(mb int) error { // each takes a file of the host's, of which there are only so many
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

// held keeps a file open for as long as the process lives.
var held *os.File

// breedProgram makes two of itself, which make two of themselves, so many
// times, as soon as they are let; none of them leaves when asked. args[0] marks
// their command lines.
func breedProgram(g Guest, args []string) error {
	depth, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if depth == 0 {
		return stubbornProgram(g, nil)
	}
	end := time.Now().Add(20 * time.Second) // a bomb is not to outlive its test by much
	for made := 0; made < 2 && time.Now().Before(end); {
		if _, err := again(g, true, "breed", args[0], strconv.Itoa(depth-1)); err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		made++
	}
	return stubbornProgram(g, nil)
}

// threadsProgram makes so many threads and tells each hundredth.
func threadsProgram(g Guest, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	up := make(chan struct{})
	for i := range n {
		go func() {
			runtime.LockOSThread()
			up <- struct{}{}
			select {} // no other goroutine gets this thread
		}()
		<-up
		if (i+1)%100 == 0 {
			fmt.Fprintf(g.Stdout, "%d threads\n", i+1)
		}
	}
	return nil
}

// torrentProgram writes as fast as it can, so many megabytes, and notes in a
// file how far it has come.
func torrentProgram(g Guest, args []string) error {
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

// exhaustProgram takes all of one thing that the kernel gives each user only so
// much of, and stays.
func exhaustProgram(g Guest, args []string) error {
	take, n := shares[args[0]], 0
	for ; n < 8192 && take() == nil; n++ {
	}
	fmt.Fprintf(g.Stderr, "%d\n", n)
	return stubbornProgram(g, nil)
}

// shares take one more of each thing, and keep it.
var shares = map[string]func() error{
	"watchers": func() error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err },
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

// takesOne succeeds when one more of a thing can be had. It ends with the
// program, also where that is the host's.
func takesOne(_ Guest, args []string) error {
	if args[0] != "segments" {
		return shares[args[0]]()
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

// babbleProgram leaves behind a process that fills its output without end.
func babbleProgram(g Guest, args []string) error {
	if len(args) > 1 {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			if _, err := io.WriteString(g.Stdout, strings.Repeat("babble\n", 1000)); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := again(g, false, "babble", args[0], "on")
	return err
}

// swapProgram makes of one name a folder and a link to another in turn.
func swapProgram(g Guest, args []string) error {
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
