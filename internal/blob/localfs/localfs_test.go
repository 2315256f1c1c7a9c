package localfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/blobtest"
	"github.com/stint-dev/stint/internal/blob/localfs"
)

func open(t *testing.T, dir string) *localfs.Store {
	t.Helper()
	s, err := localfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{New: func(t *testing.T) blob.Store { return open(t, t.TempDir()) }})
}

// tree returns the permission bits of each file and folder under dir by its relative path.
// The path of a folder ends with a slash.
func tree(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if d.IsDir() {
			rel += "/"
		}
		found[rel] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFileModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "blobs")
	s := open(t, dir)
	if err := s.Put(t.Context(), "org_1/packs/a", bytes.NewReader([]byte("x")), 1); err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{
		"./": 0o700, "objects/": 0o700, "tmp/": 0o700,
		"objects/org_1/": 0o700, "objects/org_1/packs/": 0o700, "objects/org_1/packs/a@": 0o600,
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

func TestObjectsSurviveReopening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := open(t, dir).Put(t.Context(), "a/b", bytes.NewReader([]byte("kept")), -1); err != nil {
		t.Fatal(err)
	}
	r, err := open(t, dir).Get(t.Context(), "a/b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "kept" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestOpenSweeps checks that Open removes the temporary files of a crashed writer
// and keeps those of a writer that still runs.
func TestOpenSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	leftover := filepath.Join(dir, "tmp", "left-over")
	if err := os.WriteFile(leftover, []byte("half an object"), 0o600); err != nil {
		t.Fatal(err)
	}
	opensMidway := io.MultiReader(bytes.NewReader([]byte("ab")), readerFunc(func([]byte) (int, error) {
		open(t, dir)
		return 0, io.EOF
	}), bytes.NewReader([]byte("cd")))
	if err := s.Put(t.Context(), "k", opensMidway, 4); err != nil {
		t.Fatalf("Put while another store opens the folder: %v", err)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover still exists: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFailedPutLeavesNoTemporaryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	before := tree(t, dir)
	if err := s.Put(t.Context(), "a/b", iotest.ErrReader(errors.New("broken")), -1); err == nil {
		t.Fatal("Put of a broken reader succeeded")
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("the folder changed (-before +after):\n%s", diff)
	}
}

// TestForeignFiles checks that other files in the folder are not listed and that
// symbolic links are not followed.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir)
	if err := s.Put(t.Context(), "a/b", bytes.NewReader(nil), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "k@"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README", "a/note.txt", "a/lost+found@"} {
		if err := os.WriteFile(filepath.Join(dir, "objects", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "objects", "link")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), "link/k", 0, -1); err == nil {
		r.Close()
		t.Error("Get followed a link out of the folder")
	}
	var keys []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if diff := cmp.Diff([]string{"a/b"}, keys); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}
