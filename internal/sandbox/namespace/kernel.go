//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/sandbox/layout"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
)

// Kernel is a user-space kernel between a sandbox and its agent. An isolator
// that builds on this package provides it. Init starts the kernel instead of
// the agent; the kernel shows the agent the sandbox's root and runs agentinit.
type Kernel struct {
	Name       string // the driver's name
	Note       string // sentence for sandbox.Report
	Binary     string // path of the kernel's program
	InitBinary string // path of a program that runs as agentinit under its name, inside the kernel
	// Command returns the kernel's command line and the files that init creates
	// below setup.KernelDir. mounts are the folders in which files may change
	// while the kernel runs. shm is the size of /dev/shm in bytes; 0 is the default.
	Command func(id string, mounts []setup.Mount, shm int64) ([]string, []layout.File, error)
	// Overhead returns the resources that the kernel itself needs for an agent
	// with the limits r. They are added to r, because one control group contains
	// the kernel and the agent.
	Overhead func(r sandbox.Resources) sandbox.Resources
}

// planKernel adds the user-space kernel to the plan. It returns the files that init
// inherits after the trees of the mounts: the kernel's binary, the binary of
// agentinit, and the read end of the lifeline.
func (sb *instance) planKernel(p *setup.Plan, trees int) ([]*os.File, error) {
	in := sb.driver.kernel
	mounts := p.Mounts
	if sb.spec.Scratch == "" {
		mounts = append([]setup.Mount{{Target: agentinit.TmpDir, Writable: true}}, mounts...)
	}
	argv, written, err := in.Command(sb.spec.ID, mounts, p.ShmMax)
	if err != nil {
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	p.Kernel = setup.Kernel{Argv: argv, Files: written, First: setup.MountFD + trees}
	p.ShmMax = 0 // the kernel has its own /dev/shm
	var files []*os.File
	for _, path := range []string{in.Binary, in.InitBinary} {
		f, err := os.Open(path)
		if err != nil {
			return files, fmt.Errorf("preparing sandbox: opening its kernel: %w", err)
		}
		files = append(files, f)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return files, fmt.Errorf("preparing sandbox: creating lifeline: %w", err)
	}
	sb.lifeline = os.NewFile(uintptr(ends[1]), "lifeline")
	return append(files, os.NewFile(uintptr(ends[0]), "lifeline")), nil
}

// awaitKernel waits until agentinit inside the user-space kernel, if there is one,
// is ready.
func (sb *instance) awaitKernel(ctx context.Context) error {
	if sb.driver.kernel == nil {
		return nil
	}
	options, err := control.MemoryFile("options", &agentinit.StartOptions{Filter: sb.driver.template.Filter, OwnKernel: true})
	if err != nil {
		return err
	}
	defer options.Close()
	if _, err := sb.conn.Request(ctx, agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, sb.initStderr, options); err != nil {
		return fmt.Errorf("starting the sandbox's kernel: %w", err)
	}
	return nil
}

// pidLimit returns the process limit that agentinit sets inside a user-space
// kernel, or 0 without such a kernel. The control group cannot enforce this limit,
// because it also counts the kernel's own processes.
func (sb *instance) pidLimit() int64 {
	if sb.driver.kernel == nil {
		return 0
	}
	limits, _ := sb.limitsAndDirs()
	return limits.Pids
}
