package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	programs["signal"] = signalProgram
	programs["connect"] = connectProgram
	programs["loopback"] = loopbackProgram
	programs["interfaces"] = interfacesProgram
	programs["processes"] = processesProgram
	programs["secrets"] = secretsProgram
	programs["exists"] = existsProgram
	programs["refused"] = refusedProgram
	programs["rights"] = rightsProgram
	programs["tree"] = treeProgram
	programs["orphan"] = orphanProgram
	programs["massacre"] = massacreProgram
	programs["assault"] = assaultProgram
	programs["eat"] = eatProgram
	programs["bomb"] = bombProgram
	programs["fill"] = fillProgram
	programs["spin"] = spinProgram
	programs["deny"] = denyProgram
	programs["reopen"] = reopenProgram
	programs["descriptors"] = descriptorsProgram
}

func signalProgram(_ Guest, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if err := unix.Kill(os.Getpid(), syscall.Signal(n)); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

// connectProgram succeeds when none of the addresses answers.
func connectProgram(_ Guest, args []string) error {
	for _, a := range args {
		network, address, _ := strings.Cut(a, "=")
		c, err := net.DialTimeout(network, address, 3*time.Second)
		if err == nil {
			c.Close()
			return fmt.Errorf("%s %s answers", network, address)
		}
	}
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.Close(fd)
		return errors.New("a socket to the virtual machine's host can be made")
	}
	return nil
}

func loopbackProgram(_ Guest, _ []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	return c.Close()
}

func interfacesProgram(g Guest, _ []string) error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		fmt.Fprintln(g.Stdout, i.Name)
	}
	return nil
}

// processesProgram lists the command lines that it can see.
func processesProgram(g Guest, _ []string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // ended meanwhile
		}
		fmt.Fprintf(g.Stdout, "%s\n", bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
	}
	return nil
}

// secretsProgram looks for a text wherever processes keep theirs.
func secretsProgram(_ Guest, args []string) error {
	for _, pattern := range []string{"/proc/*/environ", "/proc/*/task/*/environ", "/proc/*/cmdline"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(args[0])) && !strings.Contains(f, "cmdline") {
				return fmt.Errorf("%s holds it", f)
			}
		}
	}
	for _, f := range []string{"/proc/1/mem", "/proc/1/fd", "/proc/1/root", "/proc/1/cwd", "/proc/1/exe"} {
		if file, err := os.Open(f); err == nil {
			_, err = file.ReadAt(make([]byte, 1), 0)
			names, derr := file.Readdirnames(-1)
			file.Close()
			if err == nil || derr == nil && len(names) > 0 {
				return fmt.Errorf("%s can be read", f)
			}
		}
	}
	return nil
}

// existsProgram succeeds when none of the paths can be looked into.
func existsProgram(_ Guest, args []string) error {
	for _, a := range args {
		if _, err := os.Lstat(a); err == nil {
			return fmt.Errorf("%s is there", a)
		}
	}
	return nil
}

// denyProgram succeeds when none of the paths can be written to.
func denyProgram(_ Guest, args []string) error {
	for _, a := range args {
		f, err := os.OpenFile(a, os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			f.Close()
			return fmt.Errorf("%s can be written", a)
		}
		if err := os.Remove(a); err == nil {
			return fmt.Errorf("%s can be removed", a)
		}
		if err := os.Chmod(a, 0o777); err == nil {
			return fmt.Errorf("the mode of %s can be changed", a)
		}
	}
	return nil
}

// reopenProgram writes to its streams by name, as shell scripts do.
func reopenProgram(_ Guest, _ []string) error {
	for _, name := range []string{"/dev/stdout", "/dev/stderr"} {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(f, name); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// refusedProgram tries what nobody inside may do.
func refusedProgram(_ Guest, _ []string) error {
	runtime.LockOSThread()
	var errs []error
	for _, try := range attempts() {
		if err := try.do(); err == nil {
			errs = append(errs, fmt.Errorf("%s is allowed", try.name))
		}
	}
	return errors.Join(errs...)
}

type attempt struct {
	name string
	do   func() error
}

func raw(number uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func attempts() []attempt {
	file := "setuid-attempt"
	buffer := make([]byte, 256)
	p := uintptr(unsafe.Pointer(&buffer[0]))
	return []attempt{
		{"a user namespace by unshare", raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
		{"a mount namespace by unshare", raw(unix.SYS_UNSHARE, unix.CLONE_NEWNS)},
		{"a user namespace by clone", func() error { return spawn(unix.CLONE_NEWUSER) }},
		{"a network namespace by clone", func() error { return spawn(unix.CLONE_NEWNET) }},
		{"clone3", raw(unix.SYS_CLONE3, 0, 0)},
		{"joining a namespace", func() error {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, 0)
		}},
		{"mount", func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") }},
		{"remounting read-write", func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"unmounting", func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"fsopen", func() error { _, err := unix.Fsopen("tmpfs", 0); return err }},
		{"open_tree", func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err }},
		{"chroot", func() error { return unix.Chroot("/tmp") }},
		{"tracing init", func() error { return unix.PtraceSeize(1) }},
		{"being traced", raw(unix.SYS_PTRACE, 0)},
		{"reading init's memory", raw(unix.SYS_PROCESS_VM_READV, 1, p, 1, p, 1, 0)},
		{"killing init", func() error {
			if err := unix.Kill(1, 0); err != nil {
				return err
			}
			_ = unix.Kill(1, unix.SIGKILL)
			_ = unix.Kill(1, unix.SIGSEGV)
			_ = unix.Kill(1, unix.SIGQUIT)
			return errors.New("it lives, or this would not run")
		}},
		{"bpf", raw(unix.SYS_BPF, 0, p, 64)},
		{"perf_event_open", raw(unix.SYS_PERF_EVENT_OPEN, p, 0, ^uintptr(0), ^uintptr(0), 0)},
		{"io_uring", raw(unix.SYS_IO_URING_SETUP, 1, p)},
		{"userfaultfd", raw(unix.SYS_USERFAULTFD, 1)},
		{"keyrings", raw(unix.SYS_KEYCTL, 0, ^uintptr(2), 1)},
		{"adding keys", raw(unix.SYS_ADD_KEY, p, p, p, 1, ^uintptr(2))},
		{"file handles", raw(unix.SYS_OPEN_BY_HANDLE_AT, 3, p, 0)},
		{"kernel modules", raw(unix.SYS_INIT_MODULE, p, 1, p)},
		{"kexec", raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)},
		{"calls that are not known yet", raw(1000)},
		{"device nodes", func() error { return unix.Mknod("/tmp/sda", unix.S_IFBLK|0o600, 8<<8) }},
		{"the setuid bit", func() error {
			return errors.Join(os.WriteFile(file, nil, 0o755), unix.Chmod(file, 0o4755))
		}},
		{"the setuid bit at birth", func() error {
			_, err := unix.Open("setuid-born", unix.O_CREAT|unix.O_WRONLY, 0o4755)
			return err
		}},
		{"becoming root", func() error { return unix.Setuid(0) }},
		{"raw sockets", func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP); return err }},
		{"the core pattern", func() error { return os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/tmp/x"), 0) }},
		{"more namespaces", func() error { return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("9"), 0) }},
		{"sysrq", func() error { return os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0) }},
		{"the kernel's log", raw(unix.SYS_SYSLOG, 3, p, 256)},
		{"the clock", raw(unix.SYS_CLOCK_SETTIME, 0, p)},
		{"the host's name", func() error { return unix.Sethostname([]byte("x")) }},
		{"reboot", raw(unix.SYS_REBOOT, 0, 0, 0, 0)},
	}
}

func spawn(flags uintptr) error {
	p, err := os.StartProcess("/proc/self/exe", []string{guestName, "exit", "0"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: flags}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// rightsProgram writes the lines of its status that tell what it may.
func rightsProgram(g Guest, _ []string) error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"}, name) {
			fmt.Fprintf(g.Stdout, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
		}
	}
	return nil
}

// again starts this program once more, with its output unless alone.
func again(g Guest, alone bool, args ...string) (*exec.Cmd, error) {
	c := exec.Command("/proc/self/exe")
	c.Args = append([]string{guestName}, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: alone}
	if !alone {
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
	}
	return c, c.Start()
}

// treeProgram makes processes that do all they can to survive: in sessions of
// their own, without parents, deaf to SIGTERM. args[0] marks their command
// lines.
func treeProgram(g Guest, args []string) error {
	depth := 3
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		depth = n
	}
	if depth == 0 {
		return stubbornProgram(Guest{Stdout: io.Discard}, nil)
	}
	for range 2 {
		if _, err := again(g, true, "tree", args[0], strconv.Itoa(depth-1)); err != nil {
			return err
		}
	}
	if depth < 3 {
		return nil // leaves its children orphans
	}
	if err := await(args[0]+"\x000", 8); err != nil { // the leaves: all others of the tree have ended
		return err
	}
	return stubbornProgram(g, nil)
}

// await waits until so many processes show the mark.
func await(mark string, n int) error {
	for range 1000 {
		if len(marked(mark)) >= n {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("only %d processes of %d have come up", len(marked(mark)), n)
}

// marked gives the processes, among those that can be seen, whose command line
// holds the mark and which have not ended.
func marked(mark string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(b, []byte(mark)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// orphanProgram leaves behind a process that holds its output open.
func orphanProgram(g Guest, args []string) error {
	if _, err := again(g, false, "stubborn", args[0]); err != nil {
		return err
	}
	_, err := io.WriteString(g.Stdout, "last words")
	return err
}

// massacreProgram kills everything that it can, itself last.
func massacreProgram(_ Guest, _ []string) error {
	if _, err := again(Guest{}, true, "stubborn"); err != nil {
		return err
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	for pid := 1; pid < 5000; pid++ {
		if pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// assaultProgram sends init every signal that there is.
func assaultProgram(_ Guest, _ []string) error {
	for s := syscall.Signal(1); s <= 64; s++ {
		_ = unix.Kill(1, s)
	}
	return nil
}

func eatProgram(g Guest, args []string) error {
	mb, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var held [][]byte
	for range mb {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	_, err = fmt.Fprintf(g.Stdout, "ate %d MB\n", len(held))
	return err
}

// bombProgram tells how many processes it could make of those it was asked for.
func bombProgram(g Guest, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	made := 0
	for ; made < n; made++ {
		if _, err := again(g, true, "stubborn"); err != nil {
			break
		}
	}
	_, err = fmt.Fprint(g.Stdout, made)
	return err
}

// fillProgram fills a folder with so many megabytes, and stays.
func fillProgram(g Guest, args []string) error {
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range mb {
		if err := os.WriteFile(filepath.Join(args[0], strconv.Itoa(i)), bytes.Repeat([]byte("x"), 1<<20), 0o644); err != nil {
			return err
		}
	}
	return stubbornProgram(g, nil)
}

// spinProgram uses the processor until it is asked to leave.
func spinProgram(g Guest, _ []string) error {
	if _, err := io.WriteString(g.Stdout, "ready\n"); err != nil {
		return err
	}
	for spins := 0; ; spins++ {
		select {
		case <-g.Term:
			return nil
		default: // spinning is the point
			runtime.KeepAlive(spins)
		}
	}
}

// descriptorsProgram tells what its open files are.
func descriptorsProgram(g Guest, _ []string) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fmt.Fprintln(g.Stdout, target)
		}
	}
	return nil
}

// stopDescendants stops what a server has started, so that it cannot notice the
// server's end. What Sweep finds must end nevertheless.
func stopDescendants(pid int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, l := range lists {
		b, err := os.ReadFile(l)
		if err != nil {
			continue // a thread that has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				_ = unix.Kill(child, unix.SIGSTOP) // one that has ended needs no stopping
				stopDescendants(child)
			}
		}
	}
}
