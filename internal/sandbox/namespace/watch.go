//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"os"
	"time"
)

// watchEvery bounds how late a limit that the kernel does not hold is noticed.
const memoryInterval = 250 * time.Millisecond

// watch kills the sandbox when it is over a limit that no kernel enforces for
// us, until the command has ended.
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
		timer := time.NewTimer(wait)
		select {
		case <-sb.conn.Done():
			timer.Stop()
			return
		case <-sb.conn.Gone():
			timer.Stop()
			return
		case <-timer.C:
		}
		if r.Disk > 0 && sb.diskUsed(false) > r.Disk {
			sb.killFor(&sb.diskExceeded)
			return
		}
		if memory {
			if u, err := sb.sample(); err == nil && u.Memory > r.Memory {
				sb.killFor(&sb.memoryExceeded)
				return
			}
		}
	}
}

// end kills for a reason, unless the command ended by itself before.
func (sb *instance) killFor(reason *bool) {
	sb.mu.Lock()
	*reason = true
	sb.mu.Unlock()
	if err := sb.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		sb.driver.log.Warn("killing a sandbox failed", "sandbox", sb.spec.ID, "error", err)
	}
}
