//go:build linux && (amd64 || arm64)

package rootfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/sandbox/rootfs"
)

// TestMaxEntries checks that entries that ImageEntries leaves out also count towards the
// maximum, because they must be read.
func TestMaxEntries(t *testing.T) {
	t.Parallel()
	image := t.TempDir()
	etc := filepath.Join(image, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	fill := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := os.Symlink("x", filepath.Join(etc, fmt.Sprintf(".stint%05d", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(0, 4000)
	if list, _, err := rootfs.ImageEntries(image); err != nil || len(list) != 0 {
		t.Errorf("4000 entries: %d shown, %v", len(list), err)
	}
	fill(4000, 4200)
	if _, _, err := rootfs.ImageEntries(image); err == nil || !strings.Contains(err.Error(), "more than 4096 entries") {
		t.Errorf("4200 entries: %v", err)
	}
}
