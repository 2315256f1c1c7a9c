//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

func TestWriteRecord(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ pid, files int }{
		"a running process":        {os.Getpid(), 1},
		"a process that has ended": {ended.Process.Pid, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := namespace.WriteRecord(dir, tt.pid); err != nil {
				t.Error(err)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != tt.files {
				t.Errorf("%d files, %v; want %d", len(files), err, tt.files)
			}
		})
	}
}
