package files_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/files"
)

// TestOnMismatch checks that OnMismatch is called for exactly those entries of the
// folder that the stored tree lacks or represents differently.
func TestOnMismatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"plain": "1", "set": "2", "sticky/x": "3", "left": "4", "old": "5", "marked/y": "6"})
	for path, mode := range map[string]uint32{"set": 0o4755, "sticky": 0o1777} {
		if err := syscall.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := time.Date(1969, 12, 31, 0, 0, 0, 1, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "old"), at, at); err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"marked": "user.overlay.opaque", "plain": "user.other"} {
		if err := unix.Setxattr(filepath.Join(dir, path), name, []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	_, err := newLibrary(t, newMemory(), files.Options{}).CommitDir(t.Context(), org, "", dir, files.DirOptions{
		Ignore:     func(path string, _ bool) bool { return path == "left" },
		OnMismatch: func(path string) { told = append(told, path) },
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(told)
	if diff := cmp.Diff([]string{"left", "marked", "pipe", "set", "sticky"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
