package pool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// startPool runs a pool of the given size in the new folder dir. The function emptied
// stops the pool and waits until the pool has closed its sandboxes.
func startPool(t *testing.T, d *fake.Driver, size int) (p *pool.Pool, dir string, emptied func()) {
	t.Helper()
	dir = t.TempDir()
	var n atomic.Int64
	p = pool.New(pool.Config{
		Driver: d, Dir: dir, Size: size, Resources: sandbox.Resources{Pids: 7}, Network: true,
		NewID: func() string { return fmt.Sprintf("sbx_%d", n.Add(1)) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Fill(ctx) }()
	emptied = func() { cancel(); <-done }
	t.Cleanup(emptied)
	return p, dir, emptied
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func script(context.Context, *fake.Proc) sandbox.Exit { return sandbox.Exit{} }

func TestTakenSandboxesAreReplaced(t *testing.T) {
	t.Parallel()
	d := fake.New(script)
	specs := make(chan sandbox.Spec, 16)
	d.OnPrepare = func(_ context.Context, s sandbox.Spec) error { specs <- s; return nil }
	p, dir, emptied := startPool(t, d, 2)
	await(t, "two sandboxes are ready", func() bool { return p.Size() == 2 })
	taken := p.Take()
	await(t, "two sandboxes are ready again", func() bool { return p.Size() == 2 })
	for _, folder := range []string{taken.Home, taken.Workspace, taken.Scratch, taken.Run} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v, %v", folder, entries, err)
		}
	}
	first := <-specs
	want := sandbox.Spec{
		ID: "sbx_1", Home: filepath.Join(dir, "sbx_1/home"), Workspace: filepath.Join(dir, "sbx_1/workspace"), Scratch: filepath.Join(dir, "sbx_1/scratch"),
		Run: filepath.Join(dir, "sbx_1/run"), Resources: sandbox.Resources{Pids: 7}, Network: true,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if err := taken.Sandbox.Start(t.Context(), sandbox.Command{Argv: []string{"x"}}); err != nil {
		t.Errorf("a taken sandbox does not start: %v", err)
	}
	emptied()
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 1 || left[0] != taken.Dir {
		t.Errorf("folders after the end: %v, %v; want only that of the taken sandbox", left, err)
	}
	if p.Take() != nil {
		t.Error("a closed pool returns a sandbox")
	}
	if err := taken.Sandbox.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFailuresAreRetried(t *testing.T) {
	t.Parallel()
	d := fake.New(script)
	var tries atomic.Int64
	d.OnPrepare = func(context.Context, sandbox.Spec) error {
		if tries.Add(1) < 3 {
			return errors.New("not now")
		}
		return nil
	}
	p, dir, _ := startPool(t, d, 1)
	await(t, "one sandbox is ready", func() bool { return p.Size() == 1 })
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 1 {
		t.Errorf("folders: %v, %v; want that of the ready sandbox", left, err)
	}
}

func TestEmptyPool(t *testing.T) {
	t.Parallel()
	p, dir, emptied := startPool(t, fake.New(script), 0)
	emptied()
	if left, _ := filepath.Glob(dir + "/*"); p.Take() != nil || len(left) != 0 {
		t.Errorf("something was prepared: %v", left)
	}
}

func TestMakeDirsRefusesExistingFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := pool.MakeDirs(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "home", "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.MakeDirs(dir); err == nil {
		t.Error("MakeDirs succeeds for an existing folder")
	}
	if _, err := os.Stat(filepath.Join(dir, "home", "kept")); err != nil {
		t.Errorf("MakeDirs removed existing files: %v", err)
	}
}
