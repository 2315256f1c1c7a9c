//go:build linux && (amd64 || arm64)

package gvisor

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
)

const (
	stateDir  = setup.KernelDir + "/state"
	bundleDir = setup.KernelDir + "/bundle"
)

// command returns the command line of runsc and the file of its OCI bundle. id is
// the last argument of runsc and of all processes that runsc starts.
func command(id string, mounts []setup.Mount, shm int64) ([]string, []layout.File, error) {
	bundle, err := json.Marshal(bundle(mounts, shm))
	if err != nil {
		return nil, nil, fmt.Errorf("writing bundle: %w", err)
	}
	argv := []string{
		"runsc",
		"--root=" + stateDir,
		"--log=" + setup.KernelLog,
		"--rootless",
		"--ignore-cgroups",               // the surrounding control groups enforce the limits
		"--network=host",                 // the sandbox's network namespace, which the server captures
		"--gofer-network-namespace=host", // do not create another one
		"--platform=systrap",
		"--overlay2=none",
		"--file-access=exclusive",     // the root does not change while the sandbox runs
		"--file-access-mounts=shared", // the server reads and adds files in mounted folders
		"--host-uds=none",
		"--host-settings=ignore",
		"run", "--detach",
		"--bundle=" + bundleDir,
		fmt.Sprintf("--pass-fd=%d:%d", setup.KernelControlFD, agentinit.ControlFD),
		fmt.Sprintf("--exec-fd=%d", setup.KernelInitFD),
		id,
	}
	return argv, []layout.File{{Name: "bundle/config.json", Data: bundle}}, nil
}

// initCapabilities are the capabilities with which init becomes user 0 in gVisor,
// so that the agent cannot signal it, and starts the agent as another user.
var initCapabilities = []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"}

// bundle returns the OCI configuration of the sandbox. Only the agent's user is
// mapped, so gVisor's host processes run as the user that owns the agent's files.
func bundle(mounts []setup.Mount, shm int64) *specs.Spec {
	user := []specs.LinuxIDMapping{{ContainerID: agentinit.AgentID, HostID: agentinit.AgentID, Size: 1}}
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: agentinit.HostName,
		Root:     &specs.Root{Path: "/", Readonly: true},
		Process: &specs.Process{
			User: specs.User{UID: agentinit.AgentID, GID: agentinit.AgentID},
			Args: []string{agentinit.Name},
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: initCapabilities, Effective: initCapabilities, Inheritable: initCapabilities, Permitted: initCapabilities, Ambient: initCapabilities,
			},
		},
		Mounts: append(kernelMounts(shm), folderMounts(mounts)...),
		Linux: &specs.Linux{
			Namespaces:  []specs.LinuxNamespace{{Type: specs.UserNamespace}},
			UIDMappings: user,
			GIDMappings: user,
		},
	}
}

// kernelMounts returns the mounts of file systems that gVisor provides itself. /sys
// is empty.
func kernelMounts(shm int64) []specs.Mount {
	options := []string{"nosuid", "nodev", "mode=1777"}
	if shm > 0 {
		options = append(options, "size="+strconv.FormatInt(shm, 10))
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "tmpfs", Source: "none", Options: []string{"ro", "mode=0555"}}, // agentinit mounts the proc file system over it
		{Destination: "/sys", Type: "tmpfs", Source: "none", Options: []string{"ro", "mode=0555"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: options},
	}
}

// folderMounts returns the mounts of the run's folders. They are separate from the
// root because they use another caching mode (--file-access-mounts).
func folderMounts(mounts []setup.Mount) []specs.Mount {
	var list []specs.Mount
	for _, m := range mounts {
		access := "ro"
		if m.Writable {
			access = "rw"
		}
		list = append(list, specs.Mount{Destination: m.Target, Type: "bind", Source: m.Target, Options: []string{"rbind", "nosuid", "nodev", access}})
	}
	return list
}
