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

// KernelDir holds a user-space kernel's files. It lies where the agent, whose kernel
// gives it a /dev of its own, cannot see it.
const KernelDir = "/dev/shm/inner"

// KernelLog is where a user-space kernel may leave why it failed.
const KernelLog = KernelDir + "/log"

// The descriptors that a user-space kernel is born with.
const (
	KernelControlFD = 3 // the warden's
	KernelInitFD    = 4 // the warden's binary
)

// Kernel is a kernel that stands between init and the agent. Init starts it, and
// hands it the control socket for the warden that it is to start in turn.
type Kernel struct {
	Argv  []string      // empty: there is none
	Files []layout.File // below KernelDir
	First int           // init's descriptor of its binary; the warden's binary and the lifeline follow
}

// Carry carries the user-space kernel.
func (i *Kernel) Fields(c *agentinit.Coder) {
	c.Strings(&i.Argv)
	agentinit.List(c, &i.Files, fileFields)
	c.Int(&i.First)
}

func fileFields(c *agentinit.Coder, f *layout.File) {
	c.String(&f.Name)
	c.Bytes(&f.Data)
}

// serveKernel runs the user-space kernel until it ends or the server does.
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
		case err != nil: // ECHILD: nothing lives
			return 0
		case pid != kernel:
		case ws.ExitStatus() != 0:
			explainKernel(ws)
			return 1
		default: // it has started all that it needs
			if err := p.dropKernelPrivileges(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
}

// closeRoot leaves no way to the host before another program than ours runs.
func (p *initProcess) detachHost() error {
	if !p.plan.UserRange {
		if err := unmountHost(); err != nil {
			return err
		}
	}
	return readOnly("/")
}

// retire gives up what starting the kernel needed. All that init still does is
// to end. Until now it has held the control socket too, so that there is one
// who tells why a kernel does not start.
func (p *initProcess) dropKernelPrivileges() error {
	unix.Close(p.Control)
	if err := forbidNamespaces(); err != nil {
		return err
	}
	return agentinit.LockDown(false, p.plan.Filter)
}

// placeKernel makes on the root what a user-space kernel needs there.
func makeKernelDirs(p *Plan) error {
	if len(p.Kernel.Argv) == 0 {
		return nil
	}
	if err := os.Mkdir("sys", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making /sys: %w", err)
	}
	return nil
}

// kernelRights are the capabilities, over our namespaces, with which an kernel
// kernel puts its parts in namespaces of their own and serves the folders. None
// is over the network.
var kernelRights = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETUID, unix.CAP_SETGID,
	unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE,
}

// startKernel starts the user-space kernel and lets go of what is its own.
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

// follow ends init, and so all, with the server: the lifeline ends with it.
func exitWithServer(lifeline int) {
	for {
		n, err := unix.Read(lifeline, make([]byte, 1))
		if err != unix.EINTR && n <= 0 {
			os.Exit(0)
		}
	}
}

// explainKernel adds the kernel's own words to ours.
func explainKernel(ws syscall.WaitStatus) {
	fmt.Fprintf(os.Stderr, "\nthe sandbox's kernel ended: exit status %d, signal %d", ws.ExitStatus(), ws.Signal())
	f, err := os.Open(KernelLog)
	if err != nil {
		return // it left none
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 2<<10)) // what was read is what there is to say
	fmt.Fprintf(os.Stderr, ": %s", strings.TrimSpace(string(text)))
}
