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

// Scanner measures a sandbox's writable folders. Looking costs a call per file,
// so it looks seldom, and more seldom the longer it took. The zero value is ready;
// it is safe for concurrent use.
type Scanner struct {
	// Proc is the proc file system that shows the sandbox's processes; what they
	// hold of deleted files is counted too. Empty counts none. It is set before
	// the first Read.
	Proc string

	clock      func() time.Time     // nil is time.Now
	cpuTime    func() time.Duration // nil is threadTime
	maxEntries int                  // entries of a look; 0 is tooMany

	scanMu sync.Mutex // held by the one who looks
	mu     sync.Mutex // guards what follows

	next           time.Time // not before
	bytes          int64
	overlayDevices []uint64 // devices of overlays
}

// ScanOptions is what to measure, and how far.
type ScanOptions struct {
	Dirs     []string
	Limit    int64         // what is more need not be told exactly; 0 wants all
	Interval time.Duration // least time since the last look
	Force    bool          // look at once, although none is due
	// Stop, once closed, gives a look up; the one before it counts. Nil never is.
	Stop <-chan struct{}
}

// Count adds a device, that of an overlay whose upper folder is measured: its
// deleted files count too while processes hold them.
func (m *Scanner) AddDevice(device uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overlayDevices = append(m.overlayDevices, device)
}

// Between two looks lies costly times what one took, as the agent decides how
// much there is to look at, but no more than longest.
const (
	pauseFactor = 20
	maxPause    = 10 * time.Second
)

// Read gives the bytes of the folders as of the last look, and looks again when
// that is due. While another looks it does not wait, unless it is to look now.
func (m *Scanner) Scan(l ScanOptions) int64 {
	if l.Force {
		m.scanMu.Lock()
	} else if !m.scanMu.TryLock() {
		return m.lastBytes()
	}
	defer m.scanMu.Unlock()
	if !l.Force && m.untilNext() > 0 {
		return m.lastBytes()
	}
	// The processor's time, not the clock's: a busy machine is no reason to look
	// more seldom.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := m.cpuUsed()
	w := m.walk(l)
	took := m.cpuUsed() - before
	m.mu.Lock()
	defer m.mu.Unlock()
	if !w.stopped {
		m.bytes = w.bytes
	}
	m.next = m.currentTime().Add(max(l.Interval, min(pauseFactor*took, maxPause)))
	return m.bytes
}

func (m *Scanner) lastBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

func (m *Scanner) currentTime() time.Time {
	if m.clock != nil {
		return m.clock()
	}
	return time.Now()
}

func (m *Scanner) cpuUsed() time.Duration {
	if m.cpuTime != nil {
		return m.cpuTime()
	}
	return threadCPUTime()
}

// threadTime is what the calling thread has used of a processor.
func threadCPUTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Wait is how long until the next look is due.
func (m *Scanner) Wait(least time.Duration) time.Duration { return max(least, m.untilNext()) }

func (m *Scanner) untilNext() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next.Sub(m.currentTime())
}

// What no honest tree and no honest process has: a nesting that is so deep, and
// so many entries, or descriptors and mappings. What hides behind them counts as
// endless.
const (
	maxDepth          = 256
	defaultMaxEntries = 2 << 20
	overAnyLimit      = int64(1) << 60
)

// least is what each file and folder counts: a file system has only so many,
// and an empty one takes one of them. A further name of a file counts as much as
// the longest takes of its folder.
const (
	minEntryBytes = 4096
	linkBytes     = 264
)

// walk adds up the blocks of all files below the folders, and of deleted ones
// that processes still hold. The agent may change them meanwhile, so links are
// never followed, and files that vanish are no error.
func (m *Scanner) walk(l ScanOptions) *walk {
	w := &walk{seen: map[[2]uint64]bool{}, devices: map[uint64]bool{}, limit: overAnyLimit - 1, maxEntries: cmp.Or(m.maxEntries, defaultMaxEntries), stop: l.Stop}
	w.remaining = w.maxEntries
	if l.Limit > 0 {
		w.limit = l.Limit
	}
	m.mu.Lock()
	for _, device := range m.overlayDevices {
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
		w.addDir(fd, 0)
	}
	if m.Proc != "" {
		w.addDeleted(m.Proc)
	}
	return w
}

type walk struct {
	bytes      int64
	limit      int64              // beyond which nothing more need be known
	maxEntries int                // looks, at the folders and again at the processes
	remaining  int                // of them
	seen       map[[2]uint64]bool // files with several names, and deleted ones
	devices    map[uint64]bool    // of the folders
	stop       <-chan struct{}
	stopped    bool
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
func (w *walk) countEntry() {
	if w.remaining--; w.remaining < 0 {
		w.bytes = overAnyLimit
	}
}

func (w *walk) addDir(fd, depth int) {
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	for !w.done() {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if w.bytes > w.limit {
				return
			}
			w.addEntry(fd, name, depth)
		}
		if err != nil {
			return
		}
	}
}

func (w *walk) addEntry(dir int, name string, depth int) {
	w.countEntry()
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Nlink > 1 && !isDir {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if w.seen[key] {
			w.bytes += linkBytes
			return
		}
		w.seen[key] = true
	}
	w.bytes += max(st.Blocks*512, minEntryBytes)
	if !isDir {
		return
	}
	if depth >= maxDepth {
		w.bytes = overAnyLimit
		return
	}
	if st.Mode&0o500 != 0o500 && os.Geteuid() != 0 {
		defer makeReadable(dir, name)()
	}
	if fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
		w.addDir(fd, depth+1)
	}
}

// unlock opens, until what it gives is called, a folder that its owner, who is
// this user, has closed to everybody.
func makeReadable(dir int, name string) func() {
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

// FileSystemSize is the size in bytes of the file system that holds a folder; 0 when it cannot
// be told.
func FileSystemSize(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Blocks) * st.Bsize
}
