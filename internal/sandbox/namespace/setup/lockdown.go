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

// harden gives up, for init and all that it will start, what neither attaching
// nor starting needs.
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
		// An overlay works with the rights of the process that mounted it, which
		// must be able to write into folders that the agent has closed.
		further |= 1 << unix.CAP_DAC_OVERRIDE
	}
	return agentinit.Harden(p.UserRange, further)
}

// seal comes just before the command's start: from here on nothing of what is
// shown can be changed by anybody.
func (p *initProcess) beforeStart() error {
	if !p.plan.UserRange {
		if err := unmountHost(); err != nil {
			return err
		}
	}
	if err := readOnly("/"); err != nil {
		return err
	}
	if err := restrict(p.landlock); err != nil {
		return err
	}
	return agentinit.LockDownThread(p.plan.UserRange, p.plan.Filter)
}

// sharing is how many sandboxes the kernel's shares of the server's user are
// for: what is used in a user namespace counts for the user who made it too.
const sandboxesPerUser = 64

// shareWatchers leaves to the server, and to other sandboxes, most of what the
// kernel grants a user for watching files. It gives less than an eighth only
// where that is more than programs need.
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

// shareQueues does the same with pending signals and message queues, for all
// that init starts.
func limitQueues() error {
	for resource, most := range map[int]uint64{
		unix.RLIMIT_SIGPENDING: 1024,
		unix.RLIMIT_MSGQUEUE:   128 << 10, // a queue of the usual size has 80 KiB
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

// forbidNamespaces sets the number of further namespaces to none: a nested user
// namespace would give the agent capabilities over kernel code that the rest of
// this package keeps from it.
func forbidNamespaces() error {
	for _, kind := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"} {
		err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0)
		if err != nil && (kind != "time" || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("forbidding further %s namespaces: %w", kind, err)
		}
	}
	return nil
}
