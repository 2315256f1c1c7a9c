//go:build linux && (amd64 || arm64)

package docker

import (
	"fmt"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// Labels of our containers.
const (
	instanceLabel = "dev.stint.instance"
	sandboxLabel  = "dev.stint.sandbox"
)

// wardenThreads is what the warden itself takes of a limit of processes.
const wardenThreads = 16

func (d *Driver) containerName(id string) string { return "stint-" + d.c.Instance + "-" + id }

// containerOptions is all that the daemon is told.
func (d *Driver) containerOptions(s sandbox.Spec, image string, mounts []mount.Mount) client.ContainerCreateOptions {
	no := false
	host := &container.HostConfig{
		Mounts:         mounts,
		NetworkMode:    "none",
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:           &no,
		Runtime:        d.c.Runtime,
		ReadonlyRootfs: true,
		SecurityOpt:    []string{"no-new-privileges"},
		// What the warden needs to give up all capabilities, its own at last,
		// and to become and to signal the agent.
		CapDrop:       []string{"ALL"},
		CapAdd:        []string{"KILL", "SETUID", "SETGID", "SETPCAP", "DAC_READ_SEARCH"},
		MaskedPaths:   masked,
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		ShmSize:       d.memory / 2,
		Resources:     resources(s.Resources),
	}
	// The kernel counts these for the agents' user, who is one for all containers.
	host.Ulimits = []*container.Ulimit{
		{Name: "sigpending", Soft: 1024, Hard: 1024},
		{Name: "msgqueue", Soft: 128 << 10, Hard: 128 << 10}, // a queue of the usual size has 80 KiB
	}
	if s.Resources.Memory > 0 {
		host.ShmSize = s.Resources.Memory / 2
	}
	if s.Scratch == "" {
		size := ""
		if s.Resources.Disk > 0 {
			size = fmt.Sprintf(",size=%d", s.Resources.Disk)
		}
		host.Tmpfs = map[string]string{agentinit.TmpDir: "rw,exec,nosuid,nodev,mode=1777" + size}
	}
	return client.ContainerCreateOptions{
		Name: d.containerName(s.ID),
		Config: &container.Config{
			Image:      image,
			Entrypoint: agentinit.GuestArgv(doorDir+"/"+agentinit.GuestName, "unix:"+doorDir+"/"+socketName),
			Hostname:   agentinit.HostName,
			User:       "0:0",
			WorkingDir: "/",
			// Not only no network: none of the daemon's doings about one. What
			// is left is a network namespace with its loopback.
			NetworkDisabled: true,
			Labels:          map[string]string{instanceLabel: d.c.Instance, sandboxLabel: s.ID},
		},
		HostConfig: host,
	}
}

// masked are the daemon's own, and all of /sys, which no agent needs and which
// tells much of the host.
var masked = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
	"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys",
}

// period is the span of a processor quota, in microseconds: the kernel's own
// default.
const period = 100_000

// resources are the limits as the daemon takes them; memory counts with swap.
func resources(r sandbox.Resources) container.Resources {
	var out container.Resources
	if r.CPU > 0 {
		out.CPUPeriod, out.CPUQuota = period, max(int64(r.CPU*period), 1000)
	}
	out.Memory, out.MemorySwap = r.Memory, r.Memory
	if r.Pids > 0 {
		pids := r.Pids + wardenThreads
		out.PidsLimit = &pids
	}
	return out
}
