//go:build linux && (amd64 || arm64)

package gvisor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

// Config contains the driver's settings.
type Config struct {
	// Config contains the settings of the namespace driver. New sets Kernel. Two
	// drivers of a server must not have the same StateDir or Instance.
	namespace.Config
	// Binary is the path of a program that runs as runsc or as agentinit,
	// depending on argv[0]. If it is empty, this program is used.
	Binary string
	// Runsc is the path of an external runsc. If it is empty, Binary is used.
	Runsc string
}

const self = "/proc/self/exe"

// New prepares a sandbox as a trial and returns the driver. If the host or the
// program lacks a requirement, the error wraps sandbox.ErrUnavailable and names the
// requirement.
func New(c Config) (*namespace.Driver, error) {
	binary := cmp.Or(c.Binary, self)
	runsc := cmp.Or(c.Runsc, binary)
	for _, path := range []string{binary, runsc} {
		st, err := os.Stat(path)
		if err == nil && (!st.Mode().IsRegular() || st.Mode()&0o111 == 0) {
			err = errors.New("it is not a program")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: gvisor: looking for %s: %w", sandbox.ErrUnavailable, path, err)
		}
	}
	source, release := runsc, version(runsc)
	if runsc == self {
		source = "this program"
	}
	if runsc == self && release == unknown {
		return nil, fmt.Errorf("%w: gvisor: this program was built without it; name a runsc with --runsc", sandbox.ErrUnavailable)
	}
	c.Kernel = &namespace.Kernel{
		Name: "gvisor", Binary: runsc, InitBinary: binary, Command: command, Overhead: overhead,
		Note: fmt.Sprintf("The agents' kernel is gVisor %s of %s; its platform is systrap, which needs no virtualization.", release, source),
	}
	d, err := namespace.New(c.Config)
	if err != nil && runsc == self && hasCgo() {
		return nil, fmt.Errorf("%w: gvisor: this program was built with cgo, with which gVisor's kernel does not start; build it with CGO_ENABLED=0, or name a runsc with --runsc", sandbox.ErrUnavailable)
	}
	if err != nil {
		return nil, fmt.Errorf("gvisor: %w", err)
	}
	return d, nil
}

// hasCgo reports whether this program was built with cgo, which is Go's default
// if a C compiler is installed.
func hasCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"})
}

// The numbers of host threads that gVisor needs: ownThreads for itself, and
// threadsProcess for each process of the agent. They are added to the limit of the
// control group, because gVisor enforces the agent's limit. The memory limit has no
// such addition: it includes gVisor's own memory.
const (
	ownThreads     = 192
	threadsProcess = 6
)

func overhead(r sandbox.Resources) sandbox.Resources {
	return sandbox.Resources{Pids: ownThreads + threadsProcess*r.Pids}
}
