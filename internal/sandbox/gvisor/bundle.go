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

// command gives runsc's command line and its bundle. The processes show the
// sandbox's ID as their last argument.
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
		"--ignore-cgroups",               // the groups around it hold the limits
		"--network=host",                 // the sandbox's own, which ends at the server
		"--gofer-network-namespace=host", // the same, rather than one more to make
		"--platform=systrap",
		"--overlay2=none",
		"--file-access=exclusive",     // nobody changes the system meanwhile
		"--file-access-mounts=shared", // the server reads and adds files
		"--host-uds=none",
		"--host-settings=ignore",
		"run", "--detach",
		"--bundle=" + bundleDir,
		fmt.Sprintf("--pass-fd=%d:%d", setup.KernelControlFD, initControlFD),
		fmt.Sprintf("--exec-fd=%d", setup.KernelInitFD),
		id,
	}
	return argv, []layout.File{{Name: "bundle/config.json", Data: bundle}}, nil
}

// guestControl is the warden's descriptor of its socket.
const initControlFD = 3

// wardenRights let the warden become user 0 of the user-space kernel, whom no agent
// can signal, and from there start the agent.
var initCapabilities = []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"}

// bundle describes the sandbox to runsc. Its own parts run as the one user that
// there is around it, who is the agent on the files that they serve.
func bundle(mounts []setup.Mount, shm int64) *specs.Spec {
	user := []specs.LinuxIDMapping{{ContainerID: agentinit.AgentID, HostID: agentinit.AgentID, Size: 1}}
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: agentinit.HostName,
		Root:     &specs.Root{Path: "/", Readonly: true},
		Process: &specs.Process{
			User: specs.User{UID: agentinit.AgentID, GID: agentinit.AgentID},
			Args: agentinit.Argv(agentinit.Name, fmt.Sprintf("fd:%d", initControlFD)),
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

// kernelMounts are the user-space kernel's own file systems. Nothing is shown of its
// /sys.
func kernelMounts(shm int64) []specs.Mount {
	options := []string{"nosuid", "nodev", "mode=1777"}
	if shm > 0 {
		options = append(options, "size="+strconv.FormatInt(shm, 10))
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "tmpfs", Source: "none", Options: []string{"ro", "mode=0555"}}, // the warden mounts it
		{Destination: "/sys", Type: "tmpfs", Source: "none", Options: []string{"ro", "mode=0555"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: options},
	}
}

// folderMounts are apart from the root for their way of caching.
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
