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
		// An overlay uses the privileges of the process that mounts it, which
		// is init here. The overlay must be able to write to folders that the
		// agent has made inaccessible.
		further |= 1 << unix.CAP_DAC_OVERRIDE
	}
	return agentinit.Harden(p.UserRange, further)
}

// beforeStart drops further privileges just before the command's start. Afterwards,
// mounts cannot be changed.
func (p *initProcess) beforeStart() error {
	if err := p.detachHost(); err != nil {
		return err
	}
	if err := restrict(p.landlock); err != nil {
		return err
	}
	return agentinit.LockDownThread(p.plan.UserRange, p.plan.Filter)
}

// sandboxesPerUser is the number of sandboxes among which the per-user limits of the
// server's user are divided: the kernel counts resources of a user namespace also
// for the user that created the namespace.
const sandboxesPerUser = 64

// limitInotify limits the sandbox's inotify instances and watches, so that most of
// the per-user limit remains for the server and for other sandboxes. The limit is an
// eighth of the per-user limit, but not more than programs usually need (enough),
// unless the share of one in sandboxesPerUser is larger.
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

// limitQueues limits the pending signals (number) and message queues (bytes) of
// init's children, for the same reason as limitInotify.
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
