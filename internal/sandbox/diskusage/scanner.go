//go:build linux && (amd64 || arm64)

// Package diskusage measures how much disk space a sandbox's folders use.
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

// Scanner measures a sandbox's writable folders. A scan makes at least one system call
// per file, so the pause between scans grows with the CPU time of a scan. The zero
// value is ready to use. It is safe for concurrent use.
type Scanner struct {
	// Proc is the path of a proc file system that shows the sandbox's
	// processes. Deleted files that these processes keep open are counted too,
	// unless Proc is empty. Proc must be set before the first Scan.
	Proc string

	clock      func() time.Time     // time.Now if nil
	cpuTime    func() time.Duration // threadCPUTime if nil
	maxEntries int                  // maximum number of entries of a scan; defaultMaxEntries if 0

	scanMu sync.Mutex // held during a scan
	mu     sync.Mutex // guards the fields below

	next           time.Time // earliest time of the next scan
	bytes          int64     // result of the last scan that was not aborted
	overlayDevices []uint64  // device numbers of overlays
}

// ScanOptions contain the folders to scan, and when to begin and end a scan.
type ScanOptions struct {
	Dirs     []string
	Limit    int64         // bytes; a scan stops above this size; 0 scans everything
	Interval time.Duration // minimum time between scans
	Force    bool          // scan even if no scan is due
	// Stop aborts a scan when it is closed; Scan then returns the previous
	// result. It may be nil.
	Stop <-chan struct{}
}

// AddDevice adds the device number of an overlay. Its upper folder must be scanned.
// Deleted files on this device that processes keep open are then counted too.
func (m *Scanner) AddDevice(device uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overlayDevices = append(m.overlayDevices, device)
}

// The pause after a scan is pauseFactor times the CPU time of the scan, at most
// maxPause, but at least ScanOptions.Interval. It limits the CPU time of scans, because
// an agent can create any number of files.
const (
	pauseFactor = 20
	maxPause    = 10 * time.Second
)

// Scan scans the folders if a scan is due, and returns the size in bytes that the
// last scan that was not aborted found. If another goroutine is scanning, Scan does not wait
// and returns the previous result, unless Force is set.
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
	// The pause depends on CPU time rather than elapsed time, so that a busy
	// machine does not delay the next scan.
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

// threadCPUTime returns the CPU time of the calling thread.
func threadCPUTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Wait returns the time until the next scan is due, or least if least is longer.
func (m *Scanner) Wait(least time.Duration) time.Duration { return max(least, m.untilNext()) }

func (m *Scanner) untilNext() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next.Sub(m.currentTime())
}

// Limits of the depth of folders and of the number of entries, which include
// descriptors and mappings of processes. Legitimate programs do not reach them. If
// a scan exceeds one of them, its result is overAnyLimit bytes.
const (
	maxDepth          = 256
	defaultMaxEntries = 2 << 20
	overAnyLimit      = int64(1) << 60
)

// minEntryBytes is the minimum size that is counted for a file or folder, because a
// file system has a limited number of inodes. linkBytes is the size that is counted
// for each further name of a file: the size of the largest folder entry.
const (
	minEntryBytes = 4096
	linkBytes     = 264
)

// walk adds up the sizes of all files below the folders and of deleted files that
// processes keep open. Because the agent may change the folders concurrently,
// walk never follows symbolic links and ignores files that disappear.
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

// walk is the state of a scan.
type walk struct {
	bytes      int64              // size found so far
	limit      int64              // the scan stops if bytes exceeds it
	maxEntries int                // maximum number of entries of the folders, and again of the processes
	remaining  int                // number of entries that may still be scanned
	seen       map[[2]uint64]bool // device and inode of counted files with several names, and of counted deleted files
	devices    map[uint64]bool    // device numbers of the folders and overlays
	stop       <-chan struct{}
	stopped    bool // stop was closed
}

// done reports whether the walk can stop because the limit is exceeded or Stop
// is closed.
func (w *walk) done() bool {
	select {
	case <-w.stop:
		w.stopped = true
	default:
	}
	return w.stopped || w.bytes > w.limit
}

// countEntry counts one entry against the maximum.
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

// makeReadable makes a folder readable for its owner, the current user, until
// the returned function is called.
func makeReadable(dir int, name string) func() {
	// The descriptor refers to the same folder even if its name is reused.
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	var st unix.Stat_t
	path := "/proc/self/fd/" + strconv.Itoa(at)
	if err := unix.Fstat(at, &st); err == nil {
		_ = unix.Chmod(path, st.Mode&0o7777|0o500) // after an error, the folder is not counted
	}
	return func() {
		_ = unix.Chmod(path, st.Mode&0o7777) // an error only affects the folder's owner
		unix.Close(at)
	}
}

// FileSystemSize returns the size in bytes of the file system that contains
// dir, or 0 if it is unknown.
func FileSystemSize(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Blocks) * st.Bsize
}
