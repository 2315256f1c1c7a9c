//go:build linux && (amd64 || arm64)

// Package diskusage answers: how much do a sandbox's folders hold?
package diskusage

import (
	"cmp"
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

	now   func() time.Time     // nil is time.Now
	spent func() time.Duration // nil is threadTime
	most  int                  // entries of a look; 0 is tooMany

	turn sync.Mutex // held by the one who looks
	mu   sync.Mutex // guards what follows

	next  time.Time // not before
	bytes int64
	more  []uint64 // devices of overlays
}

// Look is what to measure, and how far.
type Look struct {
	Dirs     []string
	Limit    int64         // what is more need not be told exactly; 0 wants all
	Interval time.Duration // least time since the last look
	Now      bool          // look at once, although none is due
	// Stop, once closed, gives a look up; the one before it counts. Nil never is.
	Stop <-chan struct{}
}

// Count adds a device, that of an overlay whose upper folder is measured: its
// deleted files count too while processes hold them.
func (m *Meter) Count(device uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.more = append(m.more, device)
}

// Between two looks lies costly times what one took, as the agent decides how
// much there is to look at, but no more than longest.
const (
	costly  = 20
	longest = 10 * time.Second
)

// Read gives the bytes of the folders as of the last look, and looks again when
// that is due. While another looks it does not wait, unless it is to look now.
func (m *Meter) Read(l Look) int64 {
	if l.Now {
		m.turn.Lock()
	} else if !m.turn.TryLock() {
		return m.last()
	}
	defer m.turn.Unlock()
	if !l.Now && m.wait() > 0 {
		return m.last()
	}
	// The processor's time, not the clock's: a busy machine is no reason to look
	// more seldom.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := m.used()
	w := m.walk(l)
	took := m.used() - before
	m.mu.Lock()
	defer m.mu.Unlock()
	if !w.stopped {
		m.bytes = w.bytes
	}
	m.next = m.clock().Add(max(l.Interval, min(costly*took, longest)))
	return m.bytes
}

func (m *Meter) last() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

func (m *Meter) clock() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

func (m *Meter) used() time.Duration {
	if m.spent != nil {
		return m.spent()
	}
	return threadTime()
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
func (m *Meter) Wait(least time.Duration) time.Duration { return max(least, m.wait()) }

func (m *Meter) wait() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next.Sub(m.clock())
}

// What no honest tree and no honest process has: a nesting that is so deep, and
// so many entries, or descriptors and mappings. What hides behind them counts as
// endless.
const (
	tooDeep = 256
	tooMany = 2 << 20
	endless = int64(1) << 60
)

// least is what each file and folder counts: a file system has only so many,
// and an empty one takes one of them. A further name of a file counts as much as
// the longest takes of its folder.
const (
	least = 4096
	named = 264
)

// walk adds up the blocks of all files below the folders, and of deleted ones
// that processes still hold. The agent may change them meanwhile, so links are
// never followed, and files that vanish are no error.
func (m *Meter) walk(l Look) *walk {
	w := &walk{seen: map[[2]uint64]bool{}, devices: map[uint64]bool{}, limit: endless - 1, most: cmp.Or(m.most, tooMany), stop: l.Stop}
	w.left = w.most
	if l.Limit > 0 {
		w.limit = l.Limit
	}
	m.mu.Lock()
	for _, device := range m.more {
		w.devices[device] = true
	}
	m.mu.Unlock()
	for _, dir := range l.Dirs {
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
	if m.Proc != "" {
		w.held(m.Proc)
	}
	return w
}

type walk struct {
	bytes   int64
	limit   int64              // beyond which nothing more need be known
	most    int                // looks, at the folders and again at the processes
	left    int                // of them
	seen    map[[2]uint64]bool // files with several names, and deleted ones
	devices map[uint64]bool    // of the folders
	stop    <-chan struct{}
	stopped bool
}

// done tells whether the walk is over: what is known suffices, or nobody asks
// any more.
func (w *walk) done() bool {
	select {
	case <-w.stop:
		w.stopped = true
	default:
	}
	return w.stopped || w.bytes > w.limit
}

// look charges one look.
func (w *walk) look() {
	if w.left--; w.left < 0 {
		w.bytes = endless
	}
}

func (w *walk) add(fd, depth int) {
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	for !w.done() {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if w.bytes > w.limit {
				return
			}
			w.entry(fd, name, depth)
		}
		if err != nil {
			return
		}
	}
}

func (w *walk) entry(dir int, name string, depth int) {
	w.look()
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Nlink > 1 && !isDir {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if w.seen[key] {
			w.bytes += named
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
