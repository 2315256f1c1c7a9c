//go:build linux && (amd64 || arm64)

package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// KernelDir contains the files of a user-space kernel. The agent cannot see them,
// because the user-space kernel mounts another /dev.
const KernelDir = "/dev/shm/inner"

// KernelLog is the file to which a user-space kernel may write error messages.
const KernelLog = KernelDir + "/log"

// The descriptors that a user-space kernel inherits.
const (
	KernelControlFD = 3 // control socket of agentinit
	KernelInitFD    = 4 // binary of agentinit
)

// Kernel describes a user-space kernel between init and the agent. Init starts the
// kernel, and the kernel starts agentinit, to which the control socket is passed on.
type Kernel struct {
	Argv  []string      // empty if there is none
	Files []layout.File // files to create below KernelDir
	First int           // descriptor of the kernel's binary; those of agentinit's binary and of the lifeline follow
}

// serveKernel runs the user-space kernel until the kernel or the server ends. It
// returns init's exit status.
func (p *initProcess) serveKernel() int {
	err := p.detachHost()
	kernel := 0
	if err == nil {
		kernel, err = p.startKernel()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go exitWithServer(p.plan.Kernel.First + 2)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: there are no processes left
			return 0
		case pid != kernel:
		case ws.ExitStatus() != 0:
			explainKernel(ws)
			return 1
		default: // the kernel's program has started all processes in the background
			if err := p.dropKernelPrivileges(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
}

// detachHost unmounts the host's root if it is still mounted, and makes the
// sandbox's root read-only. It must be called before another program runs.
func (p *initProcess) detachHost() error {
	if !p.plan.UserRange {
		if err := unmountHost(); err != nil {
			return err
		}
	}
	return readOnly("/")
}

// dropKernelPrivileges drops init's privileges for starting the kernel; afterwards,
// init only waits. It also closes init's copy of the control socket. Init kept it
// open until here so that, if the start fails, init can write the reason to stderr
// before the server sees the socket close and kills the sandbox.
func (p *initProcess) dropKernelPrivileges() error {
	unix.Close(p.Control)
	if err := forbidNamespaces(); err != nil {
		return err
	}
	return agentinit.LockDown(false, p.plan.Filter)
}

// makeKernelDirs creates the folders that a user-space kernel needs on the
// root.
func makeKernelDirs(p *Plan) error {
	if len(p.Kernel.Argv) == 0 {
		return nil
	}
	if err := os.Mkdir("sys", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating /sys: %w", err)
	}
	return nil
}

// kernelRights are the capabilities in the sandbox's namespaces with which a
// user-space kernel creates its own namespaces and accesses the folders. They do not
// include capabilities for networks.
var kernelRights = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETUID, unix.CAP_SETGID,
	unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE,
}

// startKernel starts the user-space kernel and returns its process ID. It closes
// init's descriptors of the two binaries.
func (p *initProcess) startKernel() (int, error) {
	in := &p.plan.Kernel
	unix.CloseOnExec(in.First + 2)
	for _, f := range in.Files {
		file := path.Join(KernelDir, f.Name)
		if err := errors.Join(os.MkdirAll(path.Dir(file), 0o700), os.WriteFile(file, f.Data, 0o600)); err != nil {
			return 0, fmt.Errorf("writing the kernel's files: %w", err)
		}
	}
	if err := agentinit.DisableCoreDumps(); err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("forbidding new privileges: %w", err)
	}
	attr := &syscall.SysProcAttr{Setsid: true, AmbientCaps: kernelRights}
	pid, err := syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", in.First), in.Argv, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Sys: attr,
		Files: []uintptr{0, 2, 2, uintptr(p.Control), uintptr(in.First + 1)},
	})
	if err != nil {
		return 0, fmt.Errorf("starting the sandbox's kernel: %w", err)
	}
	unix.Close(in.First)
	unix.Close(in.First + 1)
	return pid, nil
}

// exitWithServer exits init when the server closes the lifeline or ends. The host's
// kernel then ends all other processes of the sandbox.
func exitWithServer(lifeline int) {
	for {
		n, err := unix.Read(lifeline, make([]byte, 1))
		if err != unix.EINTR && n <= 0 {
			os.Exit(0)
		}
	}
}

// explainKernel writes the exit status and the log of the user-space kernel to
// stderr.
func explainKernel(ws syscall.WaitStatus) {
	fmt.Fprintf(os.Stderr, "\nthe sandbox's kernel ended: exit status %d, signal %d", ws.ExitStatus(), ws.Signal())
	f, err := os.Open(KernelLog)
	if err != nil {
		return // there is no log
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 2<<10)) // a partial log is still useful
	fmt.Fprintf(os.Stderr, ": %s", strings.TrimSpace(string(text)))
}
