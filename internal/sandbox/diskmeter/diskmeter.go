//go:build linux && (amd64 || arm64)

// Package diskmeter answers: how much do a sandbox's folders hold?
package diskmeter

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Meter measures a sandbox's writable folders. Looking costs a call per file,
// so it looks seldom, and more seldom the longer it took. The zero value is ready;
// it is safe for concurrent use.
type Meter struct {
	// Proc is the proc file system that shows the sandbox's processes; what they
	// hold of deleted files is counted too. Empty counts none. It is set before
	// the first Read.
	Proc string

	mu    sync.Mutex // guards what follows; held while looking
	next  time.Time  // not before
	bytes int64
	more  []uint64 // devices of overlays
}

// Count adds a device, that of an overlay whose upper folder is measured: its
// deleted files count too while processes hold them.
func (m *Meter) Count(device uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.more = append(m.more, device)
}

// costly times the duration of a look lies between two.
const costly = 20

// Read gives the bytes of the folders as of the last look, and looks again when
// that is due, interval or more after the last, or at once when now is true.
func (m *Meter) Read(dirs []string, interval time.Duration, now bool) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !now && time.Now().Before(m.next) {
		return m.bytes
	}
	// The processor's time, not the clock's: a busy machine is no reason to look
	// more seldom.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	m.bytes = folders(dirs, m.Proc, m.more...)
	took := threadTime() - before
	m.next = time.Now().Add(max(interval, costly*took))
	return m.bytes
}

// threadTime is what the calling thread has used of a processor.
func threadTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Wait is how long until the next look is due.
func (m *Meter) Wait(least time.Duration) time.Duration {
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

// least is what each file and folder counts: a file system has only so many,
// and an empty one takes one of them.
const least = 4096

// folders adds up the blocks of all files below the folders, and of deleted
// ones that processes still hold. The agent may change them meanwhile, so links
// are never followed, and files that vanish are no error.
func folders(dirs []string, proc string, devices ...uint64) int64 {
	w := walk{seen: map[[2]uint64]bool{}, devices: map[uint64]bool{}}
	for _, device := range devices {
		w.devices[device] = true
	}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			w.devices[uint64(st.Dev)] = true
		}
		w.add(fd, 0)
	}
	if proc != "" {
		w.held(proc)
	}
	return w.bytes
}

type walk struct {
	bytes   int64
	seen    map[[2]uint64]bool // files with several names, and deleted ones
	devices map[uint64]bool    // of the folders
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
	w.bytes += max(st.Blocks*512, least)
	if !isDir {
		return
	}
	if depth >= tooDeep {
		w.bytes = endless
		return
	}
	if st.Mode&0o500 != 0o500 && os.Geteuid() != 0 {
		defer unlock(dir, name)()
	}
	if fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		w.add(fd, depth+1)
	}
}

// unlock opens, until what it gives is called, a folder that its owner, who is
// this user, has closed to everybody.
func unlock(dir int, name string) func() {
	// The folder itself, whatever takes its name meanwhile.
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	var st unix.Stat_t
	path := "/proc/self/fd/" + strconv.Itoa(at)
	if err := unix.Fstat(at, &st); err == nil {
		_ = unix.Chmod(path, st.Mode&0o7777|0o500) // else it cannot be looked into
	}
	return func() {
		_ = unix.Chmod(path, st.Mode&0o7777) // only its owner is the worse for it
		unix.Close(at)
	}
}

// FileSystem is the size in bytes of the file system that holds a folder; 0 when it cannot
// be told.
func FileSystem(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Blocks) * st.Bsize
}
