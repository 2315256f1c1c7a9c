package localdir_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/localdir"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tree maps paths to contents. A path that ends with "/" is a folder. The content
// "-> target" stands for a symbolic link.
type tree map[string]string

func writeTree(t *testing.T, files tree) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		full := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(full, 0o755))
		case link:
			must(t, os.Symlink(target, full))
		default:
			must(t, os.WriteFile(full, []byte(content), 0o640))
			must(t, os.Chtimes(full, moment, moment))
		}
	}
	return dir
}

// TestInvalidUTF8 checks names of files and folders that are not UTF-8.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	f, err := localdir.Open(t.Context(), writeTree(t, tree{"\xff\xfe/\xfd": "x", "a\nb/c\\d": "y", "z": "z"}))
	must(t, err)
	defer f.Close()
	var got []string
	for _, e := range f.Entries() {
		got = append(got, e.Path)
	}
	if diff := cmp.Diff([]string{"a\nb", "a\nb/c\\d", "z", "\xff\xfe", "\xff\xfe/\xfd"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// unpack returns the content of a tar.gz archive as a tree, and its headers by name.
func unpack(t *testing.T, b []byte) (tree, map[string]*tar.Header) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	got, headers := tree{}, map[string]*tar.Header{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return got, headers
		}
		must(t, err)
		content, err := io.ReadAll(in)
		must(t, err)
		got[h.Name], headers[h.Name] = string(content), h
		if h.Typeflag == tar.TypeSymlink {
			got[h.Name] = "-> " + h.Linkname
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, dir string) []byte {
	t.Helper()
	f, err := localdir.Open(t.Context(), dir)
	must(t, err)
	defer f.Close()
	var b bytes.Buffer
	var reported int64
	must(t, f.Pack(t.Context(), &b, func(n int) { reported += int64(n) }))
	if reported != f.Size {
		t.Errorf("progress reported %d bytes, the folder has %d", reported, f.Size)
	}
	return b.Bytes()
}

func TestPack(t *testing.T) {
	t.Parallel()
	files := tree{
		"a.txt": "hello", "empty": "", "d/": "", "d/ü 日本.txt": "x", "d/deep/er/file": strings.Repeat("long", 100_000),
		"hollow/": "", "link": "-> d/deep", "d/up": "-> ../a.txt", "d/deep/": "", "d/deep/er/": "", "broken": "-> nowhere",
		"with\nnewline": "odd", strings.Repeat("n", 200): "long name",
	}
	dir := writeTree(t, files)
	must(t, os.Chmod(filepath.Join(dir, "hollow"), 0o511))
	archive := pack(t, dir)
	got, headers := unpack(t, archive)
	if diff := cmp.Diff(files, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, hollow := headers["a.txt"], headers["hollow/"]
	if info.Mode != 0o640 || !info.ModTime.Equal(moment) || hollow.Mode != 0o511 {
		t.Errorf("modes %o and %o, time %v", info.Mode, hollow.Mode, info.ModTime)
	}
	if !bytes.Equal(archive, pack(t, dir)) {
		t.Error("packing the same folder twice returned different bytes")
	}
}

func TestPackExcludesIgnored(t *testing.T) {
	t.Parallel()
	dir := writeTree(t, tree{
		".stintignore": "*.tmp\n/build/\n", "a.txt": "a", "x.tmp": "", "build/out": "", "sub/build/out": "s",
		"sub/.stintignore": "!x.tmp\nsecret", "sub/x.tmp": "kept", "sub/secret": "", "sub/more/secret": "",
	})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	f, err := localdir.Open(t.Context(), dir)
	must(t, err)
	if diff := cmp.Diff([]string{"pipe"}, f.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	must(t, f.Close())
	want := tree{
		".stintignore": "*.tmp\n/build/\n", "a.txt": "a", "sub/": "", "sub/build/": "", "sub/build/out": "s",
		"sub/.stintignore": "!x.tmp\nsecret", "sub/x.tmp": "kept", "sub/more/": "",
	}
	got, _ := unpack(t, pack(t, dir))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files tree
		want  string
	}{
		"absolute link": {tree{"l": "-> /etc/passwd"}, "the link l points out of the folder, to /etc/passwd"},
		"leaving link":  {tree{"d/l": "-> ../../x"}, "the link d/l points out"},
		"bad pattern":   {tree{"d/.stintignore": "ok\n[z-a]"}, "d/.stintignore, line 2"},
		"large ignore":  {tree{".stintignore": strings.Repeat("#", 1<<20+1)}, "more than"},
	} {
		if _, err := localdir.Open(t.Context(), writeTree(t, tt.files)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, tt.want)
		}
	}
	if _, err := localdir.Open(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want %v", err, fs.ErrNotExist)
	}
}

func TestPackReportsShrunkFile(t *testing.T) {
	t.Parallel()
	dir := writeTree(t, tree{"f": "0123456789"})
	f, err := localdir.Open(t.Context(), dir)
	must(t, err)
	defer f.Close()
	must(t, os.Truncate(filepath.Join(dir, "f"), 3))
	if err := f.Pack(t.Context(), &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("error is %v", err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := writeTree(t, tree{"f": "x"})
	f, err := localdir.Open(ctx, dir)
	must(t, err)
	defer f.Close()
	cancel()
	_, openErr := localdir.Open(ctx, dir)
	for name, err := range map[string]error{"open": openErr, "pack": f.Pack(ctx, &bytes.Buffer{}, nil)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error is %v, want %v", name, err, context.Canceled)
		}
	}
}

func TestPackBytes(t *testing.T) {
	t.Parallel()
	b, err := localdir.PackBytes(fstest.MapFS{"a/b": {Data: []byte("x")}, "c": {Data: []byte("y")}})
	must(t, err)
	got, _ := unpack(t, b)
	if diff := cmp.Diff(tree{"a/b": "x", "c": "y"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
