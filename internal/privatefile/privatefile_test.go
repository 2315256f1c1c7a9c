package privatefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/internal/privatefile"
)

func TestCreateAndReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	want := func(content string) {
		t.Helper()
		if got, err := privatefile.Read(path, 100); err != nil || string(got) != content {
			t.Errorf("content %q, %v, want %q", got, err, content)
		}
	}
	if err := privatefile.Create(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	want("one")
	if err := privatefile.Create(path, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the file was created twice: %v", err)
	}
	want("one")
	if err := privatefile.Replace(path, []byte("three")); err != nil {
		t.Fatal(err)
	}
	want("three")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder contains %v, %v", entries, err)
	}
	if got, err := privatefile.Read(path, 2); err != nil || string(got) != "th" {
		t.Errorf("with a limit: %q, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := privatefile.Read(file, 1); err != nil {
		t.Error(err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o602} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := privatefile.Read(file, 1); err == nil {
			t.Errorf("a file of mode %o was read", mode)
		}
	}
	for _, path := range []string{dir, link} {
		if _, err := privatefile.Read(path, 1); err == nil {
			t.Errorf("%s was read", path)
		}
	}
	if _, err := privatefile.Read(filepath.Join(dir, "missing"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
