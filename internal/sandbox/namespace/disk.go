//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"os"
	"time"
)

// watchEvery bounds how late a limit that the kernel does not hold is noticed.
const watchEvery = 250 * time.Millisecond

// watch kills the sandbox when it is over a limit that no kernel enforces for
// us, until the command has ended.
func (b *box) watch() {
	r, _ := b.now()
	memory := r.Memory > 0 && !b.driver.groups.Enforced().Memory
	if r.Disk <= 0 && !memory {
		return
	}
	for {
		wait := b.disk.Wait(b.driver.interval)
		if memory {
			wait = watchEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-b.session.Done():
			timer.Stop()
			return
		case <-b.session.Gone():
			timer.Stop()
			return
		case <-timer.C:
		}
		if r.Disk > 0 && b.measure(false) > r.Disk {
			b.end(&b.full)
			return
		}
		if memory {
			if u, err := b.sample(); err == nil && u.Memory > r.Memory {
				b.end(&b.starved)
				return
			}
		}
	}
}

// end kills for a reason, unless the command ended by itself before.
func (b *box) end(reason *bool) {
	b.mu.Lock()
	*reason = true
	b.mu.Unlock()
	if err := b.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.driver.log.Warn("killing a sandbox failed", "sandbox", b.spec.ID, "error", err)
	}
}
