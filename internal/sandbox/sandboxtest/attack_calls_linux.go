package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaces are all kinds of them.
var namespaceKinds = map[string]uintptr{
	"mount": unix.CLONE_NEWNS, "network": unix.CLONE_NEWNET, "uts": unix.CLONE_NEWUTS, "ipc": unix.CLONE_NEWIPC,
	"cgroup": unix.CLONE_NEWCGROUP, "pid": unix.CLONE_NEWPID, "time": unix.CLONE_NEWTIME,
}

// scrap is memory, all zero, that calls may read and write.
var scrap [4096]byte

// callAttempts are calls with which a process leaves its place.
func callAttempts() []attempt {
	p := uintptr(unsafe.Pointer(&scrap))
	all := []attempt{
		{"a user namespace by clone", func() error { return spawn(unix.CLONE_NEWUSER) }, free | within},
		{"a user namespace by unshare", func() error { return child(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER}) }, free | within},
		{"a network namespace by clone", func() error { return spawn(unix.CLONE_NEWNET) }, free | within},
		{"another namespace with another personality", func() error {
			_, _, _ = unix.Syscall(unix.SYS_PERSONALITY, 0x0400008, 0, 0) // 32 bits, executable memory; whether it takes it or not
			defer unix.Syscall(unix.SYS_PERSONALITY, 0, 0, 0)
			return child(&syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER})
		}, free | within},
		{"clone3", heard(raw(unix.SYS_CLONE3, 0, 0)), free | within},
		{"a table of descriptors of its own", raw(unix.SYS_CLOSE_RANGE, 1<<20, 1<<20, unix.CLOSE_RANGE_UNSHARE), free},
		{"joining a namespace", func() error { return join("/proc/self/ns/net") }, free | within},
		{"joining init's namespace", func() error { return join("/proc/1/ns/mnt") }, within},
		{"mounting a file system", func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") }, free | within},
		{"mounting a folder", func() error { return unix.Mount("/", "/tmp", "", unix.MS_BIND|unix.MS_REC, "") }, free | within},
		{"mounting groups", func() error { return unix.Mount("cgroup", "/tmp", "cgroup", 0, "memory") }, 0},
		{"mounting groups of version 2", func() error { return unix.Mount("cgroup2", "/tmp", "cgroup2", 0, "") }, 0},
		{"mounting the system's files", func() error { return unix.Mount("sysfs", "/tmp", "sysfs", 0, "") }, within},
		{"remounting read-write", func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }, within},
		{"changing mounts", heard(raw(unix.SYS_MOUNT_SETATTR, ^uintptr(0), p, 0, p, 32)), free | within},
		{"unmounting", func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }, within},
		{"unmounting nothing", heard(raw(unix.SYS_UMOUNT2, p, ^uintptr(0))), free | within},
		{"another root by pivoting", heard(func() error { return unix.PivotRoot("/", "/") }), free | within},
		{"another root", func() error { return child(&syscall.SysProcAttr{Chroot: "/"}) }, free | within},
		{"fsopen", func() error { fd, err := unix.Fsopen("tmpfs", 0); unix.Close(fd); return err }, free | within},
		{"fspick", heard(raw(unix.SYS_FSPICK, ^uintptr(0), p, ^uintptr(0))), free | within},
		{"fsmount", heard(raw(unix.SYS_FSMOUNT, ^uintptr(0), 0, 0)), free | within},
		{"open_tree", func() error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE)
			unix.Close(fd)
			return err
		}, free | within},
		{"move_mount", heard(raw(unix.SYS_MOVE_MOUNT, ^uintptr(0), p, ^uintptr(0), p, ^uintptr(0))), free | within},
		{"tracing", func() error { return child(&syscall.SysProcAttr{Ptrace: true}) }, free | within},
		{"tracing init", func() error { return unix.PtraceSeize(1) }, 0},
		{"reading memory", func() error { return peek(os.Getpid()) }, free | within},
		{"reading init's memory", func() error { return peek(1) }, 0},
		{"init's descriptors", initDescriptor, 0},
		{"comparing with init", raw(unix.SYS_KCMP, 1, 1, 2, 0, 0), 0},
		{"io_uring", func() error { return descriptor(unix.SYS_IO_URING_SETUP, 1, p) }, free | within},
		{"userfaultfd", func() error { return descriptor(unix.SYS_USERFAULTFD, 1) }, free | within},
		{"keyrings", raw(unix.SYS_KEYCTL, 0, ^uintptr(2), 1), free | within},
		{"adding keys", func() error { return addKey() }, free | within},
		{"bpf", bpfMap, within},
		{"watching files of others", func() error { return descriptor(unix.SYS_FANOTIFY_INIT, unix.FAN_REPORT_FID, 0) }, free | within},
		{"kernel modules", heard(raw(unix.SYS_INIT_MODULE, p, 1, p)), 0},
		{"kernel modules from files", heard(raw(unix.SYS_FINIT_MODULE, ^uintptr(0), p, 0)), 0},
		{"another kernel", heard(raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, ^uintptr(0))), 0},
		{"swapping", heard(raw(unix.SYS_SWAPON, p, ^uintptr(0))), 0},
		{"accounting", heard(raw(unix.SYS_ACCT, 1)), 0},
		{"the kernel's log", raw(unix.SYS_SYSLOG, 3, p, 256), within},
		{"the clock", setClock, 0},
		{"bending the clock", bendClock, 0},
		{"the host's name", func() error { return unix.Sethostname([]byte("owned")) }, free | within},
		{"the domain's name", func() error { return unix.Setdomainname([]byte("owned")) }, free | within},
		{"reboot", heard(raw(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_CAD_OFF)), free},
		{"a socket filter", socketFilter, free | within},
		{"a seccomp filter", func() error { return callFilter(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0) }, free | within},
		{"a seccomp filter by prctl", func() error { return callFilter(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER) }, free | within},
		{"an AIO context", asyncContext, free | within},
		{"becoming root", func() error { return unix.Setuid(0) }, free},
		{"root's group", func() error { return unix.Setgid(0) }, free},
		{"other groups", func() error { return unix.Setgroups([]int{0}) }, 0},
		{"typing into a terminal", typeIntoTerminal, 0},
	}
	for name, flag := range namespaceKinds {
		all = append(all, attempt{"a " + name + " namespace by unshare", raw(unix.SYS_UNSHARE, flag), free | within})
	}
	return all
}

// pass is the shortest BPF program: it lets everything through.
var pass = []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}

// socketFilter attaches one program to one socket. Never attach many: they use
// up memory of the kernel that the whole machine needs.
func socketFilter() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(pass)), Filter: &pass[0]})
}

// callFilter installs one seccomp filter, on this thread alone.
func callFilter(call, operation, mode uintptr) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(pass)), Filter: &pass[0]}
	_, _, errno := unix.Syscall(call, operation, mode, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return errno
	}
	return nil
}

func asyncContext() error {
	var context uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
		return errno
	}
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
	return nil
}

func join(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, 0)
}

// descriptor makes a call that gives one.
func descriptor(number uintptr, args ...uintptr) error {
	var a [3]uintptr
	copy(a[:], args)
	fd, _, errno := unix.Syscall(number, a[0], a[1], a[2])
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// peek reads a byte of a process, where a byte of ours is.
func peek(pid int) error {
	from, to := []byte("x"), make([]byte, 1)
	local := []unix.Iovec{{Base: &to[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 1}}
	_, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil // nothing is there, but we may look
	}
	return err
}

func initDescriptor() error {
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	for fd := range 20 {
		got, err := unix.PidfdGetfd(pidfd, fd, 0)
		if err == nil {
			return unix.Close(got)
		}
		if !errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return unix.EPERM
}

func addKey() error {
	_, err := unix.AddKey("user", "hostile", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func bpfMap() error {
	attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 4, 1, 0}
	return descriptor(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

// setClock sets the time that it is: were it allowed, nobody would notice.
func setClock() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

func bendClock() error {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return err
	}
	t.Modes = unix.ADJ_FREQUENCY // to what it is
	_, err := unix.Adjtimex(&t)
	return err
}

// typeIntoTerminal puts a key into the terminal of whoever started the server.
func typeIntoTerminal() error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		defer tty.Close()
		return nil // to have one is enough
	}
	key := []byte("x")
	for fd := range uintptr(3) {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCSTI, uintptr(unsafe.Pointer(&key[0]))); errno == 0 {
			return nil
		}
	}
	return err
}

// fileAttempts leave something on the host that is more than a file, or reach
// for files that are not shown.
func fileAttempts() []attempt {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("hostile-%d", os.Getpid()))
	made := func(name string) string {
		path := filepath.Join(dir, name)
		_ = os.MkdirAll(dir, 0o777)
		_ = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700) // what fails here fails the control
		return path
	}
	// Inside a kernel of its own they show nothing; what lies on the host is
	// looked at in another case.
	return []attempt{
		{"a disk", func() error { return unix.Mknod(dir+"/sda", unix.S_IFBLK|0o600, 8<<8) }, within},
		{"a device", func() error { return unix.Mknod(dir+"/mem", unix.S_IFCHR|0o600, 1<<8|1) }, within},
		{"a whiteout of an overlay", func() error { return unix.Mknod(dir+"/gone", unix.S_IFCHR|0o600, 0) }, within},
		{"the setuid bit", func() error { return unix.Chmod(made("chmod"), 0o4755) }, free | within},
		{"the setuid bit by descriptor", func() error {
			f, err := os.Open(made("fchmod"))
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Fchmod(int(f.Fd()), 0o4755)
		}, free | within},
		{"the setuid bit by folder", func() error { return unix.Fchmodat(unix.AT_FDCWD, made("fchmodat"), 0o4755, 0) }, free | within},
		{"the setuid bit by the newest call", func() error {
			path, err := unix.BytePtrFromString(made("fchmodat2"))
			if err != nil {
				return err
			}
			return raw(unix.SYS_FCHMODAT2, ^uintptr(99), uintptr(unsafe.Pointer(path)), 0o4755, 0)()
		}, free | within},
		{"the setuid bit at birth", func() error { return born(filepath.Dir(made("x"))+"/born", unix.O_CREAT) }, free | within},
		{"the setuid bit without a name", func() error { return born(filepath.Dir(made("x")), unix.O_TMPFILE) }, free | within},
		{"a setuid folder", func() error { return errors.Join(unix.Mkdir(dir+"/folder", 0o4755), isSetuid(dir+"/folder")) }, 0},
		{"capabilities of files", func() error {
			return unix.Setxattr(made("caps"), "security.capability", []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"), 0)
		}, free | within},
		{"a trusted attribute", func() error { return unix.Setxattr(made("opaque"), "trusted.overlay.opaque", []byte("y"), 0) }, within},
		{"a file that nobody can remove", func() error { return setImmutable(made("immutable")) }, within},
		{"a name for a setuid program", func() error { return unix.Link("/usr/bin/su", dir+"/su") }, within},
		{"opening by handle", openByHandle, within},
	}
}

func born(path string, how int) error {
	fd, err := unix.Open(path, how|unix.O_WRONLY|unix.O_CLOEXEC, 0o4755)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return isSetuid(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func isSetuid(path string) error {
	st, err := os.Stat(path)
	if err == nil && st.Mode()&os.ModeSetuid == 0 {
		return errors.New("the bit was dropped")
	}
	return err
}

func setImmutable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, unix.STATX_ATTR_IMMUTABLE)
}

// openByHandle goes from a file that it sees to the root of the file system
// that holds it, whatever is mounted from there.
func openByHandle() error {
	mount, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	handle := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}) // inode 2 of ext4
	if own, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0); err == nil {
		handle = own
	}
	fd, err := unix.OpenByHandleAt(mount, handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
