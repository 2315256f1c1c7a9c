//go:build linux && (amd64 || arm64)

package diskmeter_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/diskmeter"
)

func TestFolders(t *testing.T) {
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
	empty := diskmeter.Folders([]string{dir}, "")
	write(1<<20, dir, "a")
	write(1<<20, dir, "sub", "b")
	write(64<<20, outside, "big")
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link")),            // not followed
		os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "a2")), // counted once
		os.Truncate(filepath.Join(dir, "sub", "b"), 1<<40),         // a hole takes no room
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := diskmeter.Folders([]string{dir}, "") - empty; got < 2<<20 || got > 3<<20 {
		t.Errorf("%d bytes, want a bit more than %d", got, 2<<20)
	}
	if got := diskmeter.Folders([]string{filepath.Join(dir, "link"), filepath.Join(dir, "missing")}, ""); got != 0 {
		t.Errorf("a link and a missing folder hold %d bytes", got)
	}
}

func TestFoldersTooDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(strings.Repeat("d/", diskmeter.TooDeep+2), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := diskmeter.Folders([]string{dir}, ""); got < diskmeter.Endless {
		t.Errorf("a nesting of %d counts %d bytes", diskmeter.TooDeep+2, got)
	}
}

// TestEmptyFiles: a thousand of them are worth a thousand blocks.
func TestEmptyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := diskmeter.Folders([]string{dir}, ""); got < 1000*4096 {
		t.Errorf("1000 empty files count %d bytes", got)
	}
}

// TestDeleted holds files that have no name any more, open and mapped.
func TestDeleted(t *testing.T) {
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
	// A proc with this process alone.
	proc := t.TempDir()
	if err := os.Symlink("/proc/self", filepath.Join(proc, strconv.Itoa(os.Getpid()))); err != nil {
		t.Fatal(err)
	}
	count := func() int64 { return diskmeter.Folders([]string{dir}, proc) }
	before := count()
	f := hold(dir, 1<<20)
	hold(elsewhere, 8<<20) // another file system's
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
		want = 1 << 20 // others may not look
	}
	if got := count() - before; got < want || got > want+1<<20 {
		t.Errorf("a mapped deleted file of %d bytes counts %d", 1<<20, got)
	}
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
}
