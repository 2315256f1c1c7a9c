package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/secret"
)

func TestAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	keys := make([][]byte, 16)
	var loading sync.WaitGroup
	for i := range keys {
		loading.Go(func() {
			var err error
			if keys[i], err = secret.LoadOrCreateKey(path); err != nil {
				t.Error(err)
			}
		})
	}
	loading.Wait()
	for _, k := range keys {
		if len(k) != secret.KeySize {
			t.Fatalf("a key of %d bytes", len(k))
		}
		if diff := cmp.Diff(keys[0], k); diff != "" {
			t.Fatalf("two keys (-first +other):\n%s", diff)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("left in the folder: %v", entries)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %04o", got)
	}
	other, err := secret.LoadOrCreateKey(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(keys[0], other) {
		t.Error("two files hold the same key")
	}
}

func TestBadKeyFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("ab", secret.KeySize) + "\n"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"good":              {good, 0o600, ""},
		"read-only":         {good, 0o400, ""},
		"readable by group": {good, 0o640, "chmod 600"},
		"readable by all":   {good, 0o604, "chmod 600"},
		"writable by all":   {good, 0o602, "chmod 600"},
		"empty":             {"", 0o600, "holds no key"},
		"short":             {good[2:], 0o600, "holds no key"},
		"long":              {"ab" + good, 0o600, "holds no key"},
		"no digits":         {strings.Repeat("zz", secret.KeySize), 0o600, "holds no key"},
		"huge":              {strings.Repeat(good, 1000), 0o600, "holds no key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := secret.LoadOrCreateKey(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			left, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.text, string(left)); diff != "" {
				t.Errorf("the file was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAKeyFileIsAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "link"), filepath.Join(dir, "missing", "key")} {
		if _, err := secret.LoadOrCreateKey(path); err == nil {
			t.Errorf("%s is taken for a key file", path)
		}
	}
}
