//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// daemon is what the driver must know of the daemon.
type daemon struct {
	first  int // user of the host that is 0 in containers
	limits sandbox.Enforced
	notes  []string // for the operator
}

// agent is the user of the host that is the agent in containers.
func (d daemon) agent() int { return d.first + agentinit.AgentID }

// answerPatience bounds questions that a healthy daemon answers in
// milliseconds.
const answerPatience = 10 * time.Second

func (d *Driver) inspectDaemon(ctx context.Context) (daemon, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	got, err := d.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) || client.IsErrConnectionFailed(err) {
			return daemon{}, fmt.Errorf("no Docker daemon answers at %s: start it (systemctl start docker), let the server's user use its socket, or name its address: %w", d.c.Host, err)
		}
		return daemon{}, fmt.Errorf("asking the Docker daemon at %s: %w", d.c.Host, err)
	}
	i := got.Info
	if i.OSType != "linux" {
		return daemon{}, fmt.Errorf("the Docker daemon runs containers of %s, not linux", i.OSType)
	}
	if secured(i.SecurityOptions, "rootless") {
		return daemon{}, errors.New("a rootless Docker daemon cannot show agents the server's folders; use a daemon of the host's root, or the namespace driver")
	}
	if d.c.Runtime != "" {
		if _, ok := i.Runtimes[d.c.Runtime]; !ok {
			return daemon{}, fmt.Errorf("the Docker daemon has no runtime %q", d.c.Runtime)
		}
	}
	r := daemon{limits: sandbox.Enforced{CPU: i.CPUCfsQuota, Memory: i.MemoryLimit, Pids: i.PidsLimit, Disk: true}}
	if secured(i.SecurityOptions, "userns") {
		if r.first, err = remapped(i.DockerRootDir); err != nil {
			return daemon{}, err
		}
	}
	r.notes = []string{
		fmt.Sprintf("Docker %s, storage %s, cgroup version %s by %s.", i.ServerVersion, i.Driver, i.CgroupVersion, i.CgroupDriver),
		fmt.Sprintf("Agents run as the host's user %d.", r.agent()),
	}
	if i.MemoryLimit && !i.SwapLimit {
		r.notes = append(r.notes, "The kernel does not count swap, so a sandbox may use swap beyond its limit on memory.")
	}
	if !secured(i.SecurityOptions, "seccomp") {
		r.notes = append(r.notes, "The Docker daemon filters no system calls; Stint's own filter still does.")
	}
	return r, nil
}

// secured looks for a feature in a list such as "name=seccomp,profile=default".
func secured(options []string, name string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		first, _, _ := strings.Cut(o, ",")
		return first == "name="+name
	})
}

// remapped is the user that a daemon with a user namespace makes 0: it names
// its folder after it, as in /var/lib/docker/100000.100000.
func remapped(root string) (int, error) {
	uid, gid, _ := strings.Cut(filepath.Base(root), ".")
	n, err := strconv.Atoi(uid)
	if err != nil || uid != gid {
		return 0, fmt.Errorf("the Docker daemon maps users in a way that its folder %s does not tell; use its default, or no mapping", root)
	}
	return n, nil
}
