package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/testkit/requirement"
	"github.com/stint-dev/stint/internal/worker"
)

// TestStartWithUnremovableFolder checks that a worker renames a folder of an earlier run
// that it cannot remove, and then executes runs.
func TestStartWithUnremovableFolder(t *testing.T) {
	t.Parallel()
	stuck := ""
	w := newWorld(t, func(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{} }, func(c *worker.Config) {
		left := filepath.Join(c.Dir, "work", "run_1")
		check(t, os.MkdirAll(filepath.Join(left, "stuck"), 0o700))
		if err := unix.Mount("tmpfs", filepath.Join(left, "stuck"), "tmpfs", 0, "size=4k"); err != nil {
			requirement.Skip(t, "a file system cannot be mounted: "+err.Error())
		}
		stuck = filepath.Join(c.Dir, "aside")
		t.Cleanup(func() {
			found, err := filepath.Glob(filepath.Join(c.Dir, "*", "*", "stuck"))
			more, err2 := filepath.Glob(filepath.Join(c.Dir, "*", "*", "*", "stuck"))
			check(t, errors.Join(err, err2))
			for _, at := range append(found, more...) {
				check(t, unix.Unmount(at, unix.MNT_DETACH))
			}
		})
	})
	w.agent(shell)
	if r := w.ended(w.create(stint.NewRun{Agent: "agent"}).ID); r.Status != stint.Completed {
		t.Errorf("the run is %s", r.Status)
	}
	if _, err := os.Stat(stuck); err != nil {
		t.Errorf("the leftover folder was not renamed: %v", err)
	}
}
