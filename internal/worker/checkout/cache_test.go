package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/worker/checkout"
)

// library implements checkout.Snapshots. Each snapshot contains the file digest, and the
// file contains the digest of the snapshot.
type library struct {
	calls atomic.Int64 // number of calls of Checkout
	fail  atomic.Bool  // Checkout returns an error after it has written the file
}

func (l *library) Checkout(_ context.Context, _, digest, dir string) error {
	l.calls.Add(1)
	if err := os.WriteFile(filepath.Join(dir, "digest"), []byte(digest), 0o600); err != nil {
		return err
	}
	if l.fail.Load() {
		return errors.New("no such snapshot")
	}
	return nil
}

func open(t *testing.T, dir string, l *library, limit int64) *checkout.Cache {
	t.Helper()
	c, err := checkout.Open(dir, l, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func acquire(t *testing.T, c *checkout.Cache, digest string) *checkout.Checkout {
	t.Helper()
	tree, err := c.Acquire(t.Context(), "org_a", digest)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// layers returns the content of the file digest in each layer, topmost layer first.
func layers(t *testing.T, tree *checkout.Checkout) (texts []string) {
	t.Helper()
	for _, dir := range tree.Layers() {
		b, err := os.ReadFile(filepath.Join(dir, "digest"))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	return texts
}

// runDir creates a folder for Adopt, as a finished run leaves it. The folder contains the
// file digest with the given text.
func runDir(t *testing.T, dir, text string) string {
	t.Helper()
	folder := filepath.Join(dir, "left-"+text)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "digest"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestConcurrentCallersShareFetch(t *testing.T) {
	t.Parallel()
	l := &library{}
	c := open(t, filepath.Join(t.TempDir(), "cache"), l, 1<<20)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			tree, err := c.Acquire(t.Context(), "org_a", "one")
			if err != nil {
				t.Error(err)
				return
			}
			defer tree.Release()
			tree.Release()
		})
	}
	group.Wait()
	if n := l.calls.Load(); n != 1 {
		t.Errorf("%d checkouts", n)
	}
}

func TestFailedFetchIsRetried(t *testing.T) {
	t.Parallel()
	l := &library{}
	l.fail.Store(true)
	dir := filepath.Join(t.TempDir(), "cache")
	c := open(t, dir, l, 1<<20)
	if _, err := c.Acquire(t.Context(), "org_a", "one"); err == nil {
		t.Fatal("it did not fail")
	}
	if diff := cmp.Diff([]string{"boot"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
	l.fail.Store(false)
	if diff := cmp.Diff([]string{"one"}, layers(t, acquire(t, c, "one"))); diff != "" {
		t.Error(diff)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		list = append(list, f.Name())
	}
	return list
}

func TestLimit(t *testing.T) {
	t.Parallel()
	l := &library{}
	c := open(t, filepath.Join(t.TempDir(), "cache"), l, 8)
	held := acquire(t, c, "aaaa")
	for _, digest := range []string{"bbbb", "cccc", "dddd"} {
		acquire(t, c, digest).Release()
	}
	held.Release() // the unused checkouts exceed the limit again, so the least recently used checkout is removed
	before := l.calls.Load()
	for _, digest := range []string{"aaaa", "dddd"} {
		defer acquire(t, c, digest).Release()
	}
	if n := l.calls.Load() - before; n != 1 { // only aaaa was removed and is fetched again
		t.Errorf("%d checkouts", n)
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	l := &library{}
	work := t.TempDir()
	c := open(t, filepath.Join(work, "cache"), l, 1<<20)
	base := acquire(t, c, "one")
	for _, step := range []struct {
		digest string
		over   string
		want   []string
	}{
		{"two", "one", []string{"two", "one"}},
		{"three", "two", []string{"three", "two", "one"}},
		{"whole", "", []string{"whole"}},
	} {
		var over *checkout.Checkout
		if step.over != "" {
			over = acquire(t, c, step.over)
		}
		if err := c.Adopt("org_a", step.digest, over, runDir(t, work, step.digest)); err != nil {
			t.Fatal(err)
		}
		if over != nil {
			over.Release()
		}
		if diff := cmp.Diff(step.want, layers(t, acquire(t, c, step.digest))); diff != "" {
			t.Error(diff)
		}
	}
	base.Release()
	if n := l.calls.Load(); n != 1 {
		t.Errorf("%d checkouts", n)
	}
	again := runDir(t, work, "two")
	if err := c.Adopt("org_a", "two", nil, again); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(again); err != nil {
		t.Errorf("a folder that was not needed was removed: %v", err)
	}
}

func TestMaxLayers(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	c := open(t, filepath.Join(work, "cache"), &library{}, 1<<20)
	base := acquire(t, c, "x")
	text := "x"
	for len(base.Layers()) < checkout.MaxLayers {
		text += "x"
		if err := c.Adopt("org_a", text, base, runDir(t, work, text)); err != nil {
			t.Fatal(err)
		}
		base = acquire(t, c, text)
	}
	if err := c.Adopt("org_a", "more", base, runDir(t, work, "more")); err != nil {
		t.Fatal(err)
	}
	if n := len(acquire(t, c, "more").Layers()); n != 1 {
		t.Errorf("%d layers", n)
	}
}

func TestBaseIsKept(t *testing.T) {
	t.Parallel()
	l := &library{}
	work := t.TempDir()
	dir := filepath.Join(work, "cache")
	c := open(t, dir, l, 4)
	base := acquire(t, c, "one")
	if err := c.Adopt("org_a", "two", base, runDir(t, work, "two")); err != nil {
		t.Fatal(err)
	}
	base.Release()
	if diff := cmp.Diff([]string{"two", "one"}, layers(t, acquire(t, c, "two"))); diff != "" {
		t.Error(diff)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	dir := filepath.Join(work, "cache")
	first := &library{}
	c := open(t, dir, first, 1<<20)
	base := acquire(t, c, "one")
	if err := c.Adopt("org_a", "two", base, runDir(t, work, "two")); err != nil {
		t.Fatal(err)
	}
	acquire(t, c, "torn").Release()
	acquire(t, c, "lost").Release()
	lost := acquire(t, c, "lost")
	if err := c.Adopt("org_a", "orphan", lost, runDir(t, work, "orphan")); err != nil {
		t.Fatal(err)
	}
	// Simulate a crash. The folders torn and lost lack their notes (.json), so the folder
	// orphan lacks its base. The folder half is an incomplete fetch.
	for _, name := range []string{"org_a-torn.json", "org_a-lost.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "org_a-half.part"), 0o700); err != nil {
		t.Fatal(err)
	}

	second := &library{}
	c = open(t, dir, second, 1<<20)
	if diff := cmp.Diff([]string{"boot", "org_a-one", "org_a-one.json", "org_a-two", "org_a-two.json"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"two", "one"}, layers(t, acquire(t, c, "two"))); diff != "" {
		t.Error(diff)
	}
	if n := second.calls.Load(); n != 0 {
		t.Errorf("%d checkouts", n)
	}
	if diff := cmp.Diff([]string{"torn"}, layers(t, acquire(t, c, "torn"))); diff != "" {
		t.Error(diff)
	}
}

func TestReboot(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	acquire(t, open(t, dir, &library{}, 1<<20), "one").Release()
	if err := os.WriteFile(filepath.Join(dir, "boot"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, &library{}, 1<<20)
	if left := strings.Join(names(t, dir), " "); left != "boot" {
		t.Errorf("left: %s", left)
	}
}

// TestFailedRemoval checks a start that cannot remove invalid folders: the error is
// logged, the cache can be used, and the files in these folders are never used. The next
// start removes the folders.
func TestFailedRemoval(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(dir string) error{
		"a folder without its note": func(dir string) error { return os.Remove(filepath.Join(dir, "org_a-one.json")) },
		"another boot":              func(dir string) error { return os.WriteFile(filepath.Join(dir, "boot"), []byte("before"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "cache")
			acquire(t, open(t, dir, &library{}, 1<<20), "one").Release()
			if err := errors.Join(crash(dir), os.Mkdir(filepath.Join(dir, "org_a-half.part"), 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "org_a-one", "digest"), []byte("torn"), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			second := &library{}
			c, err := checkout.OpenBy(dir, second, 1<<20, slog.New(slog.NewTextHandler(&log, nil)), func(string) error { return os.ErrPermission })
			if err != nil {
				t.Fatal(err)
			}
			if text := log.String(); !strings.Contains(text, dir) || !strings.Contains(text, "permission denied") {
				t.Errorf("the log is %q", text)
			}
			for range 2 {
				if diff := cmp.Diff([]string{"one"}, layers(t, acquire(t, c, "one"))); diff != "" {
					t.Error(diff)
				}
			}
			if n := second.calls.Load(); n != 1 {
				t.Errorf("%d checkouts", n)
			}
			third := &library{}
			if diff := cmp.Diff([]string{"one"}, layers(t, acquire(t, open(t, dir, third, 1<<20), "one"))); diff != "" {
				t.Error(diff)
			}
			if n := third.calls.Load(); n != 0 {
				t.Errorf("%d checkouts after the next start", n)
			}
			if diff := cmp.Diff([]string{"boot", "org_a-one", "org_a-one.json"}, names(t, dir)); diff != "" {
				t.Errorf("the next start leaves (-want +got):\n%s", diff)
			}
		})
	}
}
