//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/idmap"
)

// DefaultUIDBase is the first host user ID that sandboxes use. Distributions do not
// use the IDs from here to 2^31-1: accounts and the ranges of useradd and of
// container managers end below. These IDs form 4096 ranges of 65536 IDs. The second
// half, from SecondUIDBase, is for a second driver of the same server.
const (
	DefaultUIDBase = 0x7000_0000
	SecondUIDBase  = DefaultUIDBase + maxRanges*rangeSize
	rangeSize      = 0x1_0000
	maxRanges      = 2048
)

var errNoRange = errors.New("all user ID ranges are in use")

// userRanges assigns ranges of user IDs, the lowest free range first. Separate ranges
// isolate the processes and files of sandboxes from each other. They do not separate
// per-user resources: since Linux 5.14, the kernel counts those of a user namespace
// also for its creator, the server's user. Init therefore limits them itself.
type userRanges struct {
	base, owner uint32 // first ID of all ranges; server's user, which owns the agent's files on the host
	mu          sync.Mutex
	used        [maxRanges]bool  // by slot, the number of a range
	namespaces  map[int]*os.File // by host user ID; each shows files of owner as files of this user, and is reused
}

// acquire reserves a range and returns its slot and the user namespace for its
// mounts.
func (r *userRanges) acquire() (int, *os.File, error) {
	r.mu.Lock()
	slot := slices.Index(r.used[:], false)
	if slot >= 0 {
		r.used[slot] = true
	}
	r.mu.Unlock()
	if slot < 0 {
		return 0, nil, errNoRange
	}
	userns, err := r.userNamespace(r.agentID(slot))
	if err != nil {
		r.release(slot)
		return 0, nil, err
	}
	return slot, userns, nil
}

// userNamespace returns the user namespace that shows files of owner as files of the
// host user ID user. The caller must have acquired the range that contains user.
func (r *userRanges) userNamespace(user int) (*os.File, error) {
	r.mu.Lock()
	userns := r.namespaces[user]
	r.mu.Unlock()
	if userns != nil {
		return userns, nil
	}
	userns, err := idmap.NewUserNamespace(r.owner, user) // outside the lock: it takes a millisecond
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.namespaces[user] = userns
	return userns, nil
}

func (r *userRanges) release(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[slot] = false
}

// closeNamespaces closes the cached user namespaces.
func (r *userRanges) closeNamespaces() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, userns := range r.namespaces {
		userns.Close()
	}
	clear(r.namespaces)
}

// firstID returns the host user ID of user 0 in a slot's sandbox.
func (r *userRanges) firstID(slot int) int { return int(r.base) + slot*rangeSize }

// agentID returns the host user ID of the agent in a slot's sandbox.
func (r *userRanges) agentID(slot int) int { return r.firstID(slot) + agentinit.AgentID }

// hasUserRange reports whether this process can map a separate range of user IDs for
// each sandbox. Otherwise it can map only its own user. hasUserRange returns an error
// if agents would then be the host's root user.
func hasUserRange(base uint32) (ok bool, err error) {
	if os.Geteuid() != 0 {
		return false, nil
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, fmt.Errorf("reading the user mapping: %w", err)
	}
	outside := uint32(0)
	for line := range strings.Lines(string(b)) {
		var inside, out, size uint64
		if _, err := fmt.Sscan(line, &inside, &out, &size); err != nil {
			return false, fmt.Errorf("reading the user mapping: %w", err)
		}
		if inside <= uint64(base) && inside+size >= uint64(base)+rangeSize*maxRanges {
			return true, nil
		}
		if inside == 0 {
			outside = uint32(out)
		}
	}
	if outside == 0 {
		// Agents would have the user ID of the host's root user.
		return false, fmt.Errorf("the user IDs from %d to %d are not mapped in this container", base, base+rangeSize*maxRanges-1)
	}
	return false, nil
}
