//go:build linux

package namespace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

func TestFolderBytes(t *testing.T) {
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
	empty := namespace.FolderBytes([]string{dir})
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
	if got := namespace.FolderBytes([]string{dir}) - empty; got < 2<<20 || got > 3<<20 {
		t.Errorf("%d bytes, want a bit more than %d", got, 2<<20)
	}
	if got := namespace.FolderBytes([]string{filepath.Join(dir, "link"), filepath.Join(dir, "missing")}); got != 0 {
		t.Errorf("a link and a missing folder hold %d bytes", got)
	}
}

func TestFolderBytesTooDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(strings.Repeat("d/", namespace.TooDeep+2), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := namespace.FolderBytes([]string{dir}); got < namespace.Endless {
		t.Errorf("a nesting of %d counts %d bytes", namespace.TooDeep+2, got)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	tail := string(own[strings.LastIndexByte(string(own), ')'):])
	for text, ok := range map[string]bool{
		string(own):                          true,
		"1 (a) R (b) S" + tail:               true,
		"":                                   false,
		"1 (x":                               false,
		"1 (x) R 1 2 3":                      false,
		"1 (x) R" + strings.Repeat(" z", 40): false,
	} {
		if err := namespace.ParseStat([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (x) R" + strings.Repeat(" 1", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = namespace.ParseStat(b) // only must not panic
	})
}
