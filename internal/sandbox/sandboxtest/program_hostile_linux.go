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

	"golang.org/x/sys/unix"
)

func init() {
	programsByName["signal"] = signalProgram
	programsByName["connect"] = connectProgram
	programsByName["loopback"] = loopbackProgram
	programsByName["interfaces"] = interfacesProgram
	programsByName["processes"] = processesProgram
	programsByName["secrets"] = secretsProgram
	programsByName["try-open"] = tryOpenProgram
	programsByName["print-status"] = printStatusProgram
	programsByName["process-tree"] = processTreeProgram
	programsByName["leave-child"] = leaveChildProgram
	programsByName["kill-all"] = killAllProgram
	programsByName["signal-init"] = signalInitProgram
	programsByName["allocate"] = allocateProgram
	programsByName["fork"] = forkProgram
	programsByName["fill"] = fillProgram
	programsByName["spin"] = spinProgram
	programsByName["try-write"] = tryWriteProgram
	programsByName["reopen"] = reopenProgram
	programsByName["descriptors"] = descriptorsProgram
}

func signalProgram(_ Program, args []string) error {
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

// connectProgram fails if it can connect to one of the addresses args, which have the form
// network=address, or if it can create a vsock socket.
func connectProgram(_ Program, args []string) error {
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
		return errors.New("a vsock socket can be created")
	}
	return nil
}

func loopbackProgram(_ Program, _ []string) error {
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

func interfacesProgram(g Program, _ []string) error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		fmt.Fprintln(g.Stdout, i.Name)
	}
	return nil
}

// processesProgram writes the command lines of all processes that are visible in /proc.
func processesProgram(g Program, _ []string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the process has ended
		}
		fmt.Fprintf(g.Stdout, "%s\n", bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
	}
	return nil
}

// secretsProgram fails if the environment of a process contains the text args[0], or if it
// can read init's memory, folders, descriptors, or executable in /proc.
func secretsProgram(_ Program, args []string) error {
	for _, pattern := range []string{"/proc/*/environ", "/proc/*/task/*/environ"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(args[0])) {
				return fmt.Errorf("%s contains it", f)
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

// tryOpenProgram fails if one of the paths args exists.
func tryOpenProgram(_ Program, args []string) error {
	for _, a := range args {
		if _, err := os.Lstat(a); err == nil {
			return fmt.Errorf("%s exists", a)
		}
	}
	return nil
}

// tryWriteProgram fails if it can create, write, remove, or change the mode of one of the
// paths args.
func tryWriteProgram(_ Program, args []string) error {
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

// reopenProgram opens /dev/stdout and /dev/stderr, as shell scripts do, and writes the
// name of each stream to that stream.
func reopenProgram(_ Program, _ []string) error {
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

// printStatusProgram writes those lines of /proc/self/status that describe its user, group,
// capabilities, and restrictions.
func printStatusProgram(g Program, _ []string) error {
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

// startAgain starts this binary again with the arguments args. If alone is true, the new
// process has its own session and discards its output. Otherwise it shares the output of
// this process.
func startAgain(g Program, alone bool, args ...string) (*exec.Cmd, error) {
	c := exec.Command("/proc/self/exe")
	c.Args = append([]string{programName}, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: alone}
	if !alone {
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
	}
	return c, c.Start()
}

// processTreeProgram starts a tree of processes that try to survive the end of the sandbox:
// they have their own sessions and no parents, and they ignore SIGTERM. args[0] is a marker
// in their command lines. args[1], if present, is the remaining depth of the tree.
func processTreeProgram(g Program, args []string) error {
	depth := 3
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		depth = n
	}
	if depth == 0 {
		return ignoreTermProgram(Program{Stdout: io.Discard}, nil)
	}
	for range 2 {
		if _, err := startAgain(g, true, "process-tree", args[0], strconv.Itoa(depth-1)); err != nil {
			return err
		}
	}
	if depth < 3 {
		return nil // its children become orphans
	}
	if err := awaitProcesses(args[0]+"\x000", 8); err != nil { // the eight processes of depth 0; the processes of other depths have ended
		return err
	}
	return ignoreTermProgram(g, nil)
}

// awaitProcesses waits until at least n processes have the marker in their command lines.
// It returns an error after programTimeout.
func awaitProcesses(mark string, n int) error {
	for end := time.Now().Add(programTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if len(processesWithMarker(mark)) >= n {
			return nil
		}
	}
	return fmt.Errorf("only %d of %d processes were started", len(processesWithMarker(mark)), n)
}

// processesWithMarker returns the IDs of all visible processes that have the marker in
// their command line.
func processesWithMarker(mark string) []int {
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

// leaveChildProgram starts a process that keeps the output open, and ends. The process does
// not write to the output: after the pipe's reader is closed, SIGPIPE would end it.
func leaveChildProgram(g Program, args []string) error {
	if _, err := startAgain(g, false, "process-tree", args[0], "0"); err != nil {
		return err
	}
	if err := awaitProcesses(args[0]+"\x000", 1); err != nil {
		return err
	}
	_, err := io.WriteString(g.Stdout, "final output")
	return err
}

// killAllProgram sends SIGKILL to all processes that it may signal, to the process IDs
// args, to all process IDs below 5000, and finally to itself.
func killAllProgram(_ Program, args []string) error {
	if _, err := startAgain(Program{}, true, "ignore-term"); err != nil {
		return err
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	for _, a := range args {
		if pid, err := strconv.Atoi(a); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	for pid := 1; pid < 5000; pid++ {
		if pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// signalInitProgram tries to change init's resource limits, and sends every signal to init
// 200 times, so that some signals arrive while init handles others.
func signalInitProgram(_ Program, _ []string) error {
	for resource := range 16 {
		_ = unix.Prlimit(1, resource, &unix.Rlimit{}, nil)
	}
	for range 200 {
		for s := syscall.Signal(1); s <= 64; s++ {
			_ = unix.Kill(1, s)
		}
	}
	return nil
}

func allocateProgram(g Program, args []string) error {
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
	_, rerr := io.Copy(io.Discard, g.Stdin) // allocateInChildren closes this input after all its processes have allocated
	runtime.KeepAlive(held)
	return errors.Join(err, rerr)
}

// forkProgram starts args[0] processes, but stops at the first failure. It writes the
// number of started processes.
func forkProgram(g Program, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	made := 0
	for ; made < n; made++ {
		if _, err := startAgain(g, true, "ignore-term"); err != nil {
			break
		}
	}
	_, err = fmt.Fprint(g.Stdout, made)
	return err
}

// fillProgram writes args[1] files of one megabyte to the folder args[0], and keeps
// running.
func fillProgram(g Program, args []string) error {
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range mb {
		if err := os.WriteFile(filepath.Join(args[0], strconv.Itoa(i)), bytes.Repeat([]byte("x"), 1<<20), 0o644); err != nil {
			return err
		}
	}
	return ignoreTermProgram(g, nil)
}

// spinProgram writes "ready" and uses CPU time until SIGTERM.
func spinProgram(g Program, _ []string) error {
	if _, err := io.WriteString(g.Stdout, "ready\n"); err != nil {
		return err
	}
	for spins := 0; ; spins++ {
		select {
		case <-g.Term:
			return nil
		default: // busy loop
			runtime.KeepAlive(spins)
		}
	}
}

// descriptorsProgram writes the target of each of its descriptors in /proc/self/fd.
func descriptorsProgram(g Program, _ []string) error {
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

// stopDescendants sends SIGSTOP to all descendants of the server with the ID pid. Stopped
// processes cannot react to the end of the server, but Sweep must still end them.
func stopDescendants(pid int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, l := range lists {
		b, err := os.ReadFile(l)
		if err != nil {
			continue // the thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				_ = unix.Kill(child, unix.SIGSTOP) // an error means that the process has ended
				stopDescendants(child)
			}
		}
	}
}
