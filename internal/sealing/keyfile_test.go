package sealing_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sealing"
)

func TestLoadOrCreateCreatesOneKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	keys := make([][]byte, 16)
	var loading sync.WaitGroup
	for i := range keys {
		loading.Go(func() {
			var err error
			if keys[i], err = only(sealing.LoadOrCreateKeys(path)); err != nil {
				t.Error(err)
			}
		})
	}
	loading.Wait()
	for _, k := range keys {
		if len(k) != sealing.KeySize {
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
	other, err := only(sealing.LoadOrCreateKeys(filepath.Join(dir, "other")))
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(keys[0], other) {
		t.Error("two files have the same key")
	}
}

func TestInvalidKeyFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("ab", sealing.KeySize) + "\n"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"good":              {good, 0o600, ""},
		"two keys":          {good + good, 0o600, ""},
		"too many keys":     {strings.Repeat(good, sealing.MaxKeys+1), 0o600, "does not hold 1 to 8 keys"},
		"a line between":    {good + "\n" + good, 0o600, "does not hold 1 to 8 keys"},
		"read-only":         {good, 0o400, ""},
		"readable by group": {good, 0o640, "chmod 600"},
		"readable by all":   {good, 0o604, "chmod 600"},
		"writable by all":   {good, 0o602, "chmod 600"},
		"empty":             {"", 0o600, "does not hold 1 to 8 keys"},
		"short":             {good[2:], 0o600, "does not hold 1 to 8 keys"},
		"long":              {"ab" + good, 0o600, "does not hold 1 to 8 keys"},
		"no digits":         {strings.Repeat("zz", sealing.KeySize), 0o600, "does not hold 1 to 8 keys"},
		"huge":              {strings.Repeat(good, 1000), 0o600, "does not hold 1 to 8 keys"},
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
			_, err := sealing.LoadOrCreateKeys(path)
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

func TestKeyFileMustBeRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "link"), filepath.Join(dir, "missing", "key")} {
		if _, err := sealing.LoadOrCreateKeys(path); err == nil {
			t.Errorf("%s was accepted as a key file", path)
		}
	}
}

// only returns the single element of keys. It returns an error if err is not nil or if keys
// does not have exactly one element.
func only(keys [][]byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, fmt.Errorf("%d keys, want 1", len(keys))
	}
	return keys[0], nil
}

func TestAddAndDropKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if _, err := sealing.AddKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("adding to no file: %v", err)
	}
	first, err := sealing.LoadOrCreateKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	all := first
	for len(all) < sealing.MaxKeys {
		added, err := sealing.AddKey(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all, added[1:]); diff != "" || cmp.Equal(added[0], added[1]) {
			t.Fatalf("older keys (-want +got):\n%s", diff)
		}
		all = added
	}
	if _, err := sealing.AddKey(path); err == nil {
		t.Error("one key too many was added")
	}
	if err := os.WriteFile(filepath.Join(dir, ".key-123"), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sealing.DropOlderKeys(path); err != nil {
			t.Fatal(err)
		}
		left, err := sealing.LoadOrCreateKeys(path)
		if diff := cmp.Diff(all[:1], left); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}
