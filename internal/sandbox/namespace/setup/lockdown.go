//go:build linux && (amd64 || arm64)

package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

// dropPrivileges drops the privileges of init and its children that are needed
// neither for attaching mounts nor for starting the command.
func dropPrivileges(p *Plan) error {
	if err := forbidNamespaces(); err != nil {
		return err
	}
	if err := limitInotify(); err != nil {
		return err
	}
	if err := limitQueues(); err != nil {
		return err
	}
	if len(p.Filter) == 0 {
		return errors.New("the plan has no system call filter")
	}
	further := uint32(1 << unix.CAP_SYS_ADMIN)
	if !p.UserRange {
		// An overlay uses the privileges of the process that mounted it. It
		// must be able to write to folders that the agent has made
		// inaccessible.
		further |= 1 << unix.CAP_DAC_OVERRIDE
	}
	return agentinit.Harden(p.UserRange, further)
}

// beforeStart is called just before the command's start. Afterwards the mounts
// cannot be changed.
func (p *initProcess) beforeStart() error {
	if err := p.detachHost(); err != nil {
		return err
	}
	if err := restrict(p.landlock); err != nil {
		return err
	}
	return agentinit.LockDownThread(p.plan.UserRange, p.plan.Filter)
}

// sandboxesPerUser is the number of sandboxes that share the kernel's per-user
// limits of the server's user: resources of a user namespace count for its
// creator too.
const sandboxesPerUser = 64

// limitInotify limits the sandbox's inotify instances and watches, and so
// leaves most of the per-user limit to the server and to other sandboxes. The
// share is below an eighth only if that is more than programs need.
func limitInotify() error {
	for of, enough := range map[string]int{"instances": 16, "watches": 8192} {
		host, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + of)
		if err != nil {
			return fmt.Errorf("sharing file watches: %w", err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(host)))
		if err != nil {
			return fmt.Errorf("sharing file watches: %w", err)
		}
		n = max(n/sandboxesPerUser, min(n/8, enough), 1)
		if err := os.WriteFile("/proc/sys/user/max_inotify_"+of, []byte(strconv.Itoa(n)), 0); err != nil {
			return fmt.Errorf("sharing file watches: %w", err)
		}
	}
	return nil
}

// limitQueues does the same for pending signals and message queues of init's
// children.
func limitQueues() error {
	for resource, most := range map[int]uint64{
		unix.RLIMIT_SIGPENDING: 1024,
		unix.RLIMIT_MSGQUEUE:   128 << 10, // a queue of the default size needs 80 KiB
	} {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			return fmt.Errorf("sharing queues: %w", err)
		}
		most = min(most, l.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("sharing queues: %w", err)
		}
	}
	return nil
}

// forbidNamespaces sets the limit of further namespaces to 0: a nested user
// namespace would give the agent capabilities for kernel code that is otherwise
// inaccessible.
func forbidNamespaces() error {
	for _, kind := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"} {
		err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0)
		if err != nil && (kind != "time" || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("forbidding further %s namespaces: %w", kind, err)
		}
	}
	return nil
}
