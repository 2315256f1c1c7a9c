//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
	"github.com/stint-dev/stint/internal/sandbox/warden"
)

// DefaultUIDBase is the first of the host's user IDs that sandboxes get. The
// numbers from here to the end of the 31 bit space are left free by
// distributions (accounts lie far below, the ranges of useradd and of container
// managers end where this begins) and make 4096 ranges of 65536.
const (
	DefaultUIDBase = 0x7000_0000
	rangeSize      = 0x1_0000
	maxRanges      = 4096
)

var errNoRange = errors.New("all user ID ranges are in use")

// ranges hands out ranges of user IDs, the lowest free one first. A range of
// its own keeps a sandbox's processes from the others' even where the kernel
// counts per user, as it does for file watches.
type ranges struct {
	base, owner uint32 // owner is the server's user, who owns the agent's files outside
	mu          sync.Mutex
	used        [maxRanges]bool
	views       [maxRanges]*os.File // user namespaces that map owner to the range's agent, kept for the next
}

// take reserves a range, and gives the user namespace for its mounts.
func (r *ranges) take() (int, *os.File, error) {
	slot, err := r.reserve()
	if err != nil {
		return 0, nil, err
	}
	r.mu.Lock()
	view := r.views[slot]
	r.mu.Unlock()
	if view != nil {
		return slot, view, nil
	}
	view, err = newView(r.owner, r.agent(slot)) // not under the lock: it takes a millisecond
	if err != nil {
		r.release(slot)
		return 0, nil, err
	}
	r.mu.Lock()
	r.views[slot] = view
	r.mu.Unlock()
	return slot, view, nil
}

func (r *ranges) reserve() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.used {
		if !r.used[i] {
			r.used[i] = true
			return i, nil
		}
	}
	return 0, errNoRange
}

func (r *ranges) release(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[slot] = false
}

// forget closes the kept user namespaces.
func (r *ranges) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, view := range r.views {
		if view != nil {
			view.Close()
			r.views[i] = nil
		}
	}
}

// first is the host's user that is 0 in a slot's sandbox.
func (r *ranges) first(slot int) int { return int(r.base) + slot*rangeSize }

// agent is the host's user that is the agent in a slot's sandbox.
func (r *ranges) agent(slot int) int { return r.first(slot) + warden.AgentID }

// newView makes a user namespace with one mapping. It needs a process for a
// moment: one that is stopped before its first instruction.
func newView(owner uint32, agent int) (*os.File, error) {
	one := []syscall.SysProcIDMap{{ContainerID: int(owner), HostID: agent, Size: 1}}
	p, err := os.StartProcess("/proc/self/exe", []string{inside.Name}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one, GidMappings: one, Ptrace: true},
	})
	if err != nil {
		return nil, fmt.Errorf("making user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	err = errors.Join(err, p.Kill())
	for {
		var ws syscall.WaitStatus
		if _, werr := syscall.Wait4(p.Pid, &ws, 0, nil); werr != syscall.EINTR && (werr != nil || !ws.Stopped()) {
			err = errors.Join(err, werr)
			break
		}
	}
	err = errors.Join(err, p.Release())
	if err != nil {
		return nil, fmt.Errorf("making user namespace: %w", err)
	}
	return f, nil
}

// identity tells which kind of user mapping this process can give: a range of
// its own to each sandbox, or its own user alone.
func identity(base uint32) (ranged bool, err error) {
	if os.Geteuid() != 0 {
		return false, nil
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, fmt.Errorf("reading our user mapping: %w", err)
	}
	outside := uint32(0)
	for line := range strings.Lines(string(b)) {
		var inside, out, size uint64
		if _, err := fmt.Sscan(line, &inside, &out, &size); err != nil {
			return false, fmt.Errorf("reading our user mapping: %w", err)
		}
		if inside <= uint64(base) && inside+size >= uint64(base)+rangeSize*maxRanges {
			return true, nil
		}
		if inside == 0 {
			outside = uint32(out)
		}
	}
	if outside == 0 {
		// The agent would be the host's root.
		return false, fmt.Errorf("the user IDs from %d to %d are not mapped in this container", base, base+rangeSize*maxRanges-1)
	}
	return false, nil
}
