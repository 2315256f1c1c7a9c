//go:build linux && (amd64 || arm64)

package namespace

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// meter measures a sandbox's writable folders. Looking costs a call per file,
// so it looks seldom, and more seldom the longer it took.
type meter struct {
	mu    sync.Mutex // guards what follows; held while looking
	next  time.Time  // not before
	bytes int64
}

// costly times the duration of a look lies between two.
const costly = 20

func (m *meter) read(dirs []string, interval time.Duration, now bool) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	start := time.Now()
	if !now && start.Before(m.next) {
		return m.bytes
	}
	m.bytes = folderBytes(dirs)
	took := time.Since(start)
	m.next = start.Add(took + max(interval, costly*took))
	return m.bytes
}

// wait is how long until the next look is due.
func (m *meter) wait(least time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(least, time.Until(m.next))
}

// tooDeep is a nesting that no honest tree has; what hides below it counts as
// endless.
const (
	tooDeep = 256
	endless = int64(1) << 60
)

// folderBytes adds up the blocks of all files below the folders. The agent may
// change them meanwhile, so links are never followed, and files that vanish
// are no error. A file that is deleted but still open is not seen.
func folderBytes(dirs []string) int64 {
	w := walk{seen: map[[2]uint64]bool{}}
	for _, dir := range dirs {
		if fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			w.add(fd, 0)
		}
	}
	return w.bytes
}

type walk struct {
	bytes int64
	seen  map[[2]uint64]bool // files with several names
}

func (w *walk) add(fd, depth int) {
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			w.entry(fd, name, depth)
		}
		if err != nil || w.bytes >= endless {
			return
		}
	}
}

func (w *walk) entry(dir int, name string, depth int) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Nlink > 1 && !isDir {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if w.seen[key] {
			return
		}
		w.seen[key] = true
	}
	w.bytes += st.Blocks * 512
	if !isDir {
		return
	}
	if depth >= tooDeep {
		w.bytes = endless
		return
	}
	if fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		w.add(fd, depth+1)
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
		w.bytes += st.Blocks * 512 // unreadable; it cannot hold less than itself
	}
}

// fileSystemBytes is the size of the file system that holds a folder.
func fileSystemBytes(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Blocks) * st.Bsize
}

// watchEvery bounds how late a limit that the kernel does not hold is noticed.
const watchEvery = 250 * time.Millisecond

// watch kills the sandbox when it is over a limit that no kernel enforces for
// us, until the command has ended.
func (b *box) watch() {
	r := b.spec.Resources
	memory := r.Memory > 0 && !b.driver.groups.Enforced().Memory
	if r.Disk <= 0 && !memory {
		return
	}
	for {
		wait := b.disk.wait(b.driver.interval)
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
		if r.Disk > 0 && b.disk.read(b.writable, b.driver.interval, false) > r.Disk {
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
