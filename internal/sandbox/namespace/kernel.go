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

// Kernel is a kernel that stands between a sandbox and its agent: what an
// isolator adds that builds on this one. Init starts it where the agent would
// have been; it shows the agent the sandbox's root, and runs the warden.
type Kernel struct {
	Name       string // the driver's name
	Binary     string // path of the kernel's program
	InitBinary string // path of a program that is the warden under its name; it runs inside
	// Command gives the kernel's command line and the files that it finds below
	// inside.InnerDir. Mounts are the folders that change while it runs.
	Command func(id string, mounts []setup.Mount, shm int64) ([]string, []layout.File, error)
	// Overhead gives what the kernel takes itself of limits that the sandbox's
	// groups hold for both.
	Overhead func(r sandbox.Resources) sandbox.Resources
}

// planKernel completes the plan, and gives the files that init inherits after
// the mounts' trees.
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
	p.ShmMax = 0 // the agent's is the kernel's
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
		return files, fmt.Errorf("preparing sandbox: making lifeline: %w", err)
	}
	sb.lifeline = os.NewFile(uintptr(ends[1]), "lifeline")
	return append(files, os.NewFile(uintptr(ends[0]), "lifeline")), nil
}

// awaitKernel waits for the warden behind the user-space kernel.
func (sb *instance) awaitKernel(ctx context.Context) error {
	if sb.driver.kernel == nil {
		return nil
	}
	terms, err := control.MemoryFile("terms", &agentinit.StartOptions{Filter: sb.driver.template.Filter, OwnKernel: true})
	if err != nil {
		return err
	}
	defer terms.Close()
	if _, err := sb.conn.Request(ctx, agentinit.Message{Op: agentinit.OpGo}, agentinit.OpReady, sb.initStderr, terms); err != nil {
		return fmt.Errorf("starting the sandbox's kernel: %w", err)
	}
	return nil
}

// processes is the limit that a user-space kernel holds itself: from outside its
// processes cannot be told from its own.
func (sb *instance) pidLimit() int64 {
	if sb.driver.kernel == nil {
		return 0
	}
	limits, _ := sb.limitsAndDirs()
	return limits.Pids
}

// attachKernel gives the sandbox its limits. Its kernel has taken all mounts.
func (sb *instance) attachKernel(r sandbox.Resources, mounts []sandbox.Mount) error {
	if len(mounts) > 0 {
		return fmt.Errorf("%w: its kernel takes no mounts", sandbox.ErrAttach)
	}
	sb.attached = true
	if err := sb.group.Limit(sb.driver.groupLimits(r)); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.limits = r
	return nil
}
