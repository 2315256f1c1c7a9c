//go:build linux && (amd64 || arm64)

package namespace

import (
	"time"
)

// memoryInterval is the interval between checks of a memory limit that the kernel
// does not enforce.
const memoryInterval = 250 * time.Millisecond

// watch kills the sandbox when it exceeds a limit that the kernel does not
// enforce. It returns when the command has ended or the sandbox is killed, or at once if
// there is no such limit.
func (sb *instance) watch() {
	r, _ := sb.limitsAndDirs()
	memory := r.Memory > 0 && !sb.driver.groups.Enforced().Memory
	if r.Disk <= 0 && !memory {
		return
	}
	for {
		wait := sb.disk.Wait(sb.driver.diskInterval)
		if memory {
			wait = memoryInterval
		}
		select {
		case <-sb.conn.Done():
			return
		case <-sb.conn.Gone():
			return
		case <-time.After(wait):
		}
		if r.Disk > 0 && sb.diskUsed(false) > r.Disk {
			sb.killFor(&sb.state.diskExceeded)
			return
		}
		if memory {
			if u, err := sb.sample(); err == nil && u.Memory > r.Memory {
				sb.killFor(&sb.state.memoryExceeded)
				return
			}
		}
	}
}

// killFor sets reason to true and kills the sandbox. If the command has already
// ended, its recorded exit does not change.
func (sb *instance) killFor(reason *bool) {
	sb.state.mu.Lock()
	*reason = true
	sb.state.mu.Unlock()
	sb.killInit()
}
