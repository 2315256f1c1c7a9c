package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func init() {
	programsByName["writable"] = writableProgram
	programsByName["devices"] = devicesProgram
	programsByName["find-canary"] = findCanaryProgram
	programsByName["victim"] = victimProgram
	programsByName["find-segment"] = findSegmentProgram
	programsByName["signal-processes"] = signalProcessesProgram
	programsByName["leave-directory"] = leaveDirectoryProgram
	programsByName["modify-parent"] = modifyParentProgram
	programsByName["leave-files"] = leaveFilesProgram
}

// writableProgram lists the writable files below the folders args, except those of its
// own process in /proc.
func writableProgram(g Program, args []string) error {
	for _, root := range args {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return fs.SkipDir // the process ended, or the folder is inaccessible
			}
			if e.IsDir() && filepath.Dir(path) == "/proc" && isOwn(e.Name()) {
				return fs.SkipDir
			}
			if !e.Type().IsRegular() {
				return nil
			}
			if canWrite(path) {
				fmt.Fprintln(g.Stdout, path)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// canWrite reports whether a file of /proc or /sys can be written. For most files, the
// kernel checks the permission when the file is opened. Some files can be opened by any
// user and refuse only the write; canWrite writes the current content back to these files.
func canWrite(path string) bool {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return false // the null device, which isolators mount over files
	}
	if !strings.HasPrefix(path, "/proc/sys/") && !strings.HasPrefix(path, "/proc/pressure/") && !strings.Contains(path, "/attr/") && filepath.Base(path) != "timerslack_ns" {
		return true
	}
	held, err := os.ReadFile(path)
	if err != nil || len(held) == 0 {
		held = []byte("0")
	}
	_, err = unix.Write(fd, held)
	return err == nil
}

// isOwn reports whether the folder /proc/name belongs to this process. A process may change
// its own settings.
func isOwn(name string) bool {
	pid, err := strconv.Atoi(name)
	return err == nil && pid == os.Getpid()
}

// devicesProgram lists the type, numbers, and path of all devices in /dev.
func devicesProgram(g Program, _ []string) error {
	return filepath.WalkDir("/dev", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeDevice == 0 {
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		kind := "char"
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			kind = "block"
		}
		_, err = fmt.Fprintf(g.Stdout, "%s %d:%d %s\n", kind, unix.Major(st.Rdev), unix.Minor(st.Rdev), path)
		return err
	})
}

// findCanaryProgram fails if one of the paths args[1:] exists, or if it finds a file named
// args[0] outside system folders such as /usr. It searches the root folder and all links in
// /proc that could refer to a folder of the host.
func findCanaryProgram(_ Program, args []string) error {
	for _, path := range args[1:] {
		for _, from := range []string{"", "/proc/self/root", "/proc/self/cwd/../../../../../..", "/proc/1/root"} {
			if _, err := os.Stat(from + path); err == nil {
				return fmt.Errorf("the canary is visible at %s", from+path)
			}
		}
	}
	system := []string{"/usr", "/opt", "/nix", "/lib", "/lib64", "/proc", "/etc", "/suite"}
	for _, root := range []string{"/", "/proc/self/root", "/proc/self/cwd/../../../../../..", "/proc/1/root", "/proc/1/cwd"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if slices.Contains(system, "/"+strings.TrimLeft(strings.TrimPrefix(path, root), "/")) && path != root {
				return fs.SkipDir
			}
			if err != nil {
				return nil
			}
			if e.Name() == args[0] {
				return fmt.Errorf("the canary is visible at %s", path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// victimProgram creates files and a Unix socket named args[0], shared memory with the key
// args[1], and a TCP listener, which other sandboxes try to access. It writes its TCP
// address and keeps running.
func victimProgram(g Program, args []string) error {
	name := args[0]
	for _, dir := range []string{".", "/tmp", "/dev/shm", "/home/agent"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
			return err
		}
	}
	if _, err := net.Listen("unix", "@"+name); err != nil {
		return err
	}
	if err := makeSegment(args[1]); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s\n", l.Addr())
	return ignoreTermProgram(g, nil)
}

func makeSegment(key string) error {
	n, err := strconv.Atoi(key)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmGet(n, 4096, unix.IPC_CREAT|0o666)
	return err
}

// dropSegment removes the shared memory segment that makeSegment created with the key.
func dropSegment(key string) {
	n, err := strconv.Atoi(key)
	if err != nil {
		return
	}
	if id, err := unix.SysvShmGet(n, 4096, 0); err == nil {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}

// findSegmentProgram fails if a shared memory segment has the key args[0], or if
// /proc/sysvipc lists any object.
func findSegmentProgram(_ Program, args []string) error {
	key, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if _, err := unix.SysvShmGet(key, 4096, 0); err == nil {
		return errors.New("the segment exists")
	}
	for _, list := range []string{"/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem"} {
		if b, err := os.ReadFile(list); err == nil && bytes.Count(b, []byte("\n")) > 1 {
			return fmt.Errorf("the segment of another process is listed in %s", list)
		}
	}
	return nil
}

// signalProcessesProgram fails if it can signal a process with one of the IDs args or change
// the limits or the priority of such a process.
func signalProcessesProgram(_ Program, args []string) error {
	for _, a := range args {
		pid, err := strconv.Atoi(a)
		if err != nil {
			return err
		}
		for name, shot := range map[string]func() error{
			"kill":      func() error { return unix.Kill(pid, 0) },
			"its group": func() error { return unix.Kill(-pid, 0) },
			"a thread":  func() error { return unix.Tgkill(pid, pid, 0) },
			"a handle": func() error {
				fd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					return err
				}
				return errors.Join(unix.PidfdSendSignal(fd, 0, nil, 0), unix.Close(fd))
			},
			"its limits":   func() error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}) },
			"its priority": func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) },
		} {
			if shot() == nil {
				return fmt.Errorf("process %d can be reached by %s", pid, name)
			}
		}
	}
	return nil
}

// leaveDirectoryProgram fails if its working directory is outside the sandbox, if it
// inherited an open folder, or if it can reach one of the paths args from its working
// directory or its descriptors.
func leaveDirectoryProgram(_ Program, args []string) error {
	dir, err := unix.Getwd()
	if err != nil || !strings.HasPrefix(dir, "/") {
		return fmt.Errorf("the working directory %q is outside: %w", dir, err)
	}
	up := strings.Repeat("../", 40)
	for fd := range 256 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && !strings.HasPrefix(path, "/proc") {
				return fmt.Errorf("the folder %s was left open", path)
			}
		}
		for _, a := range args {
			if unix.Fstatat(fd, up+a, &st, 0) == nil {
				return fmt.Errorf("%s can be reached from descriptor %d", a, fd)
			}
		}
	}
	for _, a := range args {
		if _, err := os.Stat(up + a); err == nil {
			return fmt.Errorf("%s can be reached from the working directory", a)
		}
	}
	return nil
}

// modifyParentProgram runs if a script names the program that starts commands as its
// interpreter. The executable of this process is then that program, which may also be the
// server's executable. modifyParentProgram fails if it can change the executable.
func modifyParentProgram(g Program, _ []string) error {
	const path = "/proc/self/exe"
	for name, try := range map[string]func() error{
		"written": openAttempt(path, unix.O_WRONLY),
		"changed": openAttempt(path, unix.O_RDWR),
		"given another mode": func() error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Chmod(path, st.Mode().Perm()) // its current mode, so that a success has no effect
		},
		"given another time": func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, 0) },
		"given an attribute": func() error { return unix.Setxattr(path, "user.hostile", []byte("x"), 0) },
		"given another name": func() error {
			return unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, "hijacked", unix.AT_SYMLINK_FOLLOW)
		},
	} {
		if err := try(); err == nil {
			return fmt.Errorf("the program that starts commands can be %s", name)
		}
	}
	_, err := io.WriteString(g.Stdout, "hijacked")
	return err
}

// leaveFilesProgram creates files that are hard to read, store, and remove. If it cannot
// create a file, it writes the error to stderr and continues.
func leaveFilesProgram(g Program, _ []string) error {
	type step = func() error
	file := func(name string) string {
		_ = os.WriteFile(name, []byte("litter"), 0o600)
		return name
	}
	for _, try := range []step{
		func() error { return os.Symlink("/etc/shadow", "link-to-shadow") },
		func() error { return os.Symlink("../../../../../../../..", "link-to-root") },
		func() error { return os.Symlink("loop", "loop") },
		func() error { return os.Symlink(strings.Repeat("x", 4000), "link-to-nowhere") },
		func() error { return os.Link(file("hard"), "hard-2") },
		func() error { return unix.Mkfifo("fifo", 0o666) },
		func() error { _, err := net.Listen("unix", "socket"); return err },
		func() error { return unix.Mknod("zero", unix.S_IFCHR|0o666, 1<<8|5) },
		func() error { return os.Truncate(file("sparse"), 1<<40) },
		func() error { return unix.Chmod(file("setuid"), 0o6755) },
		func() error { return unix.Chmod(file("setgid"), 0o2755) },
		func() error { return unix.Chmod(file("setid-only"), 0o4000) },
		func() error { return unix.Chmod(file("nobody"), 0) },
		func() error { return unix.Setxattr(file("attribute"), "user.x", bytes.Repeat([]byte("x"), 1000), 0) },
		func() error {
			return unix.Setxattr(file("capable"), "security.capability", []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"), 0)
		},
		func() error { return errors.Join(os.MkdirAll("closed/below", 0o700), os.Chmod("closed", 0)) },
		func() error { return errors.Join(os.MkdirAll("unlisted/below", 0o700), os.Chmod("unlisted", 0o300)) },
		func() error { return makeDeepDir("deep", 2200) },
	} {
		if err := try(); err != nil {
			fmt.Fprintln(g.Stderr, err)
		}
	}
	for _, name := range unusualNames {
		file(name)
	}
	return nil
}

// unusualNames are names that programs often handle incorrectly.
var unusualNames = []string{
	"new\nline", "\xff\xfe\x80", "-rf", "--", "...", " ", "\x1b[31mred\x1b[0m", "\r", "$(id)", "`id`", "'\"", "a\\b", "\u202egpj.exe", "CON", strings.Repeat("ü", 127), ".stint", "%2e%2e%2f",
}

// makeDeepDir creates nested folders. With 2200 levels, the path of the deepest folder is
// longer than the kernel's limit of 4096 bytes.
func makeDeepDir(name string, levels int) error {
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	at, err := unix.Open(name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for range levels {
		if err := unix.Mkdirat(at, "d", 0o700); err != nil {
			return err
		}
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		if err != nil {
			return err
		}
		at = next
	}
	return unix.Close(at)
}

// wantHarmless checks all files below a folder to which hostile programs wrote: they belong
// to the current user, have neither a setuid bit nor capabilities, and are not devices.
func (w *world) wantHarmless(dir string) {
	w.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	w.must(err)
	w.wantHarmlessAt(fd, dir, 0)
}

func (w *world) wantHarmlessAt(fd int, path string, depth int) {
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, _ := f.Readdirnames(-1) // if the folder cannot be listed, its files are not checked
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // the folder is inaccessible
		}
		at := path + "/" + name
		if depth > 5 {
			at = path
		}
		kind := st.Mode & unix.S_IFMT
		switch {
		case int(st.Uid) != os.Geteuid():
			w.Errorf("%q belongs to user %d on the host", at, st.Uid)
		case st.Mode&unix.S_ISUID != 0:
			w.Errorf("%q has mode %o on the host", at, st.Mode)
		case kind == unix.S_IFBLK, kind == unix.S_IFCHR:
			w.Errorf("%q is a device on the host", at)
		}
		if kind == unix.S_IFREG {
			if _, err := unix.Lgetxattr(at, "security.capability", nil); err == nil {
				w.Errorf("%q has capabilities on the host", at)
			}
		}
		if kind != unix.S_IFDIR {
			continue
		}
		if below, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			w.wantHarmlessAt(below, at, depth+1)
		}
	}
}

// aliveOnHost reports whether the host has a process with this ID that the current
// user may signal.
func aliveOnHost(pid int) bool { return syscall.Kill(pid, 0) == nil }
