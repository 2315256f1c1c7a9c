//go:build linux && (amd64 || arm64)

package diskusage_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/diskusage"
)

func TestScan(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write := func(size int, elem ...string) {
		t.Helper()
		path := filepath.Join(elem...)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	empty := diskusage.ScanDirs([]string{dir}, "")
	write(1<<20, dir, "a")
	write(1<<20, dir, "sub", "b")
	write(64<<20, outside, "big")
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link")),            // not followed
		os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "a2")), // counted once
		os.Truncate(filepath.Join(dir, "sub", "b"), 1<<40),         // holes use no space
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := diskusage.ScanDirs([]string{dir}, "") - empty; got < 2<<20 || got > 3<<20 {
		t.Errorf("%d bytes, want slightly more than %d", got, 2<<20)
	}
	if got := diskusage.ScanDirs([]string{filepath.Join(dir, "link"), filepath.Join(dir, "missing")}, ""); got != 0 {
		t.Errorf("a link and a missing folder count %d bytes", got)
	}
}

func TestScanTooDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(strings.Repeat("d/", diskusage.MaxDepth+2), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := diskusage.ScanDirs([]string{dir}, ""); got < diskusage.OverAnyLimit {
		t.Errorf("a nesting of %d counts %d bytes", diskusage.MaxDepth+2, got)
	}
}

// TestEmptyFiles checks that empty files count one block each.
func TestEmptyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := diskusage.ScanDirs([]string{dir}, ""); got < 1000*4096 {
		t.Errorf("1000 empty files count %d bytes", got)
	}
}

// TestDeletedFiles checks that deleted files count while they are open or mapped.
func TestDeletedFiles(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), "/dev/shm"
	hold := func(dir string, size int) *os.File {
		t.Helper()
		f, err := os.CreateTemp(dir, "held")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	// proc is a proc file system that contains only this process.
	proc := t.TempDir()
	if err := os.Symlink("/proc/self", filepath.Join(proc, strconv.Itoa(os.Getpid()))); err != nil {
		t.Fatal(err)
	}
	count := func() int64 { return diskusage.ScanDirs([]string{dir}, proc) }
	before := count()
	f := hold(dir, 1<<20)
	hold(elsewhere, 8<<20) // on another file system
	if got := count() - before; got < 1<<20 || got > 2<<20 {
		t.Errorf("a deleted file of %d bytes counts %d", 1<<20, got)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	want := int64(0)
	if os.Geteuid() == 0 {
		want = 1 << 20 // only root can read the mappings of a process
	}
	if got := count() - before; got < want || got > want+1<<20 {
		t.Errorf("a mapped deleted file of %d bytes counts %d", 1<<20, got)
	}
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
}

// files creates n empty files in a new folder and returns the path of the folder.
func files(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestScanStopsAtLimit checks that a scan stops when it has counted more bytes than the
// limit.
func TestScanStopsAtLimit(t *testing.T) {
	t.Parallel()
	dir := files(t, 400)
	for limit, want := range map[int64]int{0: 400, 100 * 4096: 101, 1 << 30: 400} {
		if got := diskusage.EntryCount(diskusage.ScanOptions{Dirs: []string{dir, files(t, 1)}, Limit: limit}, ""); got != want && got != want+1 {
			t.Errorf("within %d bytes: %d entries, want %d", limit, got, want)
		}
	}
}

// TestHardLinks checks that a further hard link to a file counts as a folder entry, not
// as a file.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	dir := files(t, 1)
	for i := range 1000 {
		if err := os.Link(filepath.Join(dir, "0"), filepath.Join(dir, "link"+strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := diskusage.ScanDirs([]string{dir}, ""); got < 1000*256 || got > 1000*512 {
		t.Errorf("1000 hard links count %d bytes", got)
	}
}

func TestMaxEntries(t *testing.T) {
	t.Parallel()
	l := diskusage.ScanOptions{Dirs: []string{files(t, 20)}}
	if got := diskusage.ScanBounded(20, l, ""); got >= diskusage.OverAnyLimit {
		t.Errorf("20 of 20 entries count %d bytes", got)
	}
	if got := diskusage.ScanBounded(19, l, ""); got < diskusage.OverAnyLimit {
		t.Errorf("20 of 19 entries count %d bytes", got)
	}
	few, many := files(t, 25), files(t, 30)
	if got := diskusage.ScanBounded(30, l, process(t, few, few)); got >= diskusage.OverAnyLimit {
		t.Errorf("25 descriptors of 30 count %d bytes", got)
	}
	if got := diskusage.ScanBounded(30, l, process(t, many)); got < diskusage.OverAnyLimit {
		t.Errorf("30 descriptors and a table of 30 count %d bytes", got)
	}
}

// process returns a proc file system with one process, which has no mappings. For each
// thread of the process, threads contains a folder with its descriptors.
func process(t *testing.T, threads ...string) string {
	t.Helper()
	proc := t.TempDir()
	for i, fds := range threads {
		dir := filepath.Join(proc, "7", "task", strconv.Itoa(7+i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(fds, filepath.Join(dir, "fd")); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// TestThreadsShareTable checks that a scan reads the descriptors of only one thread of a
// process, and skips a thread that has ended and therefore has no descriptors.
func TestThreadsShareTable(t *testing.T) {
	t.Parallel()
	table, none := files(t, 50), t.TempDir()
	threads := []string{none}
	for range 100 {
		threads = append(threads, table)
	}
	if got := diskusage.EntryCount(diskusage.ScanOptions{}, process(t, threads...)); got < 51 || got > 52+len(threads) {
		t.Errorf("a hundred threads and 50 descriptors: %d entries", got)
	}
}

// TestPauseAfterScan checks that the CPU time of a scan determines the pause, up to a
// maximum.
func TestPauseAfterScan(t *testing.T) {
	t.Parallel()
	now, used := time.Now(), time.Duration(0)
	for _, c := range []struct{ took, interval, want time.Duration }{
		{0, time.Second, time.Second},
		{100 * time.Millisecond, time.Second, 2 * time.Second},
		{time.Hour, time.Second, diskusage.MaxPause},
		{time.Hour, time.Minute, time.Minute},
	} {
		m := diskusage.WithClock(func() time.Time { return now }, func() time.Duration { used += c.took; return used })
		m.Scan(diskusage.ScanOptions{Interval: c.interval})
		if got := m.Wait(0); got != c.want {
			t.Errorf("after a scan of %v: %v, want %v", c.took, got, c.want)
		}
	}
}

// TestAbortedScan checks that an aborted scan returns the previous result.
func TestAbortedScan(t *testing.T) {
	t.Parallel()
	m, stop := diskusage.Scanner{}, make(chan struct{})
	l := diskusage.ScanOptions{Dirs: []string{files(t, 10)}, Force: true, Stop: stop}
	want := m.Scan(l)
	close(stop)
	l.Dirs = []string{files(t, 20)}
	if got := m.Scan(l); got != want || want < 10*4096 {
		t.Errorf("an aborted scan returns %d, the one before %d", got, want)
	}
}

// TestConcurrentScan checks that Scan returns the previous result at once while another
// scan is in progress.
func TestConcurrentScan(t *testing.T) {
	t.Parallel()
	scanning, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m := diskusage.WithClock(time.Now, func() time.Duration {
		once.Do(func() {
			close(scanning)
			<-done
		})
		return 0
	})
	l := diskusage.ScanOptions{Dirs: []string{files(t, 1)}}
	var first sync.WaitGroup
	first.Go(func() { m.Scan(l) })
	<-scanning
	if got := m.Scan(l); got != 0 {
		t.Errorf("%d bytes before the end of the first scan", got)
	}
	close(done)
	first.Wait()
	l.Interval = time.Hour
	if got := m.Scan(l); got < 4096 {
		t.Errorf("%d bytes after the first scan", got)
	}
}
