package files_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
)

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func paths(t testing.TB, l *files.Library, digest string) []string {
	t.Helper()
	page, more, err := l.List(t.Context(), org, digest, "", "", 1000)
	if err != nil || more {
		t.Fatal(err, more)
	}
	out := []string{}
	for _, f := range page {
		out = append(out, f.Path)
	}
	return out
}

func TestSpecialsAreSkippedOrRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "1", "d/z": "2"})
	if err := syscall.Mkfifo(dir+"/d/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // the address of a socket must be short
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	l := newLibrary(t, newMemory(), files.Options{})
	skipped := map[string]fs.FileMode{}
	ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{
		OnSkip: func(path string, mode fs.FileMode) { skipped[path] = mode.Type() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]fs.FileMode{"d/pipe": fs.ModeNamedPipe, "socket": fs.ModeSocket}, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "d", "d/z"}, paths(t, l, ref.Digest)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
	ref, err = l.CommitDir(t.Context(), org, "", dir, files.DirOptions{RefuseSpecials: true})
	wantRefused(t, ref, err, "'d/pipe' is a socket, named pipe or device")
}

func TestLinksAreNeverFollowed(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret": "do not read", "folder/secret": "nor this"})
	write(t, dir, map[string]string{"a": "1"})
	links := map[string]string{
		"absolute": outside + "/secret", "relative": "../../../../../../../../etc/passwd", "folder": outside + "/folder",
		"loop": "loop", "root": "/", "dangling": "nothing", "inside": "a",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := l.List(t.Context(), org, ref.Digest, "", "", 100)
	if err != nil || len(page) != len(links)+1 || ref.Files != 1 || ref.Size != 1 {
		t.Fatalf("%+v, %v, %v", ref, page, err)
	}
	for _, f := range page {
		if f.Target != links[f.Path] {
			t.Errorf("%+v", f)
		}
	}
	out := t.TempDir()
	if err := l.Checkout(t.Context(), org, ref.Digest, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(folderLooks(t, dir), folderLooks(t, out)); diff != "" {
		t.Errorf("the checkout (-want +got):\n%s", diff)
	}
}

// TestRacingLinks repeatedly exchanges a folder and a file with symbolic links to
// targets outside the tree while the tree is stored. No content from outside may be
// stored.
func TestRacingLinks(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"f": "secret"})
	write(t, dir, map[string]string{"d/f": "public", "f": "public"})
	if err := errors.Join(os.Symlink(outside, dir+"/d-link"), os.Symlink(outside+"/f", dir+"/f-link")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() {
		for ctx.Err() == nil {
			for _, name := range []string{"/d", "/f"} {
				if err := exchange(dir+name, dir+name+"-link"); err != nil {
					stopped <- err
					return
				}
			}
		}
		stopped <- nil
	}()
	l := newLibrary(t, newMemory(), files.Options{})
	for range 200 {
		ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
		var e *stint.Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("CommitDir = %v", err)
		}
		if err != nil {
			continue
		}
		for path, k := range archiveLooks(t, readArchive(t, l, ref.Digest)) {
			if k.Kind == "file" && k.Sum != lookOf("file", 0, someTime, "", []byte("public")).Sum {
				t.Fatalf("%s contains content from outside", path)
			}
		}
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"keep/a": "1", "keep/b.tmp": "2", "drop/c": "3", "drop-not/d": "4"})
	l := newLibrary(t, newMemory(), files.Options{})
	asked := []string{}
	ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{Ignore: func(path string, isDir bool) bool {
		asked = append(asked, fmt.Sprint(path, isDir))
		return path == "drop" && isDir || strings.HasSuffix(path, ".tmp")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"drop-not", "drop-not/d", "keep", "keep/a"}, paths(t, l, ref.Digest)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
	want := []string{"droptrue", "drop-nottrue", "drop-not/dfalse", "keeptrue", "keep/afalse", "keep/b.tmpfalse"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("Ignore was asked (-want +got):\n%s", diff)
	}
}

func TestFolderLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "12345", "b/c": "12345", "b/d": "12345"})
	vast := t.TempDir()
	write(t, vast, map[string]string{"hole": ""})
	if err := os.Truncate(vast+"/hole", 1<<42); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		dir     string
		limits  files.Limits
		options files.DirOptions
		ok      bool
	}{
		{"all met", dir, files.Limits{Entries: 4, FileBytes: 5, TotalBytes: 15, Depth: 2, PathBytes: 3}, files.DirOptions{MaxBytes: 15, MaxFiles: 3}, true},
		{"bytes", dir, files.Limits{}, files.DirOptions{MaxBytes: 14}, false},
		{"files", dir, files.Limits{}, files.DirOptions{MaxFiles: 2}, false},
		{"entries", dir, files.Limits{Entries: 3}, files.DirOptions{}, false},
		{"file bytes", dir, files.Limits{FileBytes: 4}, files.DirOptions{}, false},
		{"total bytes", dir, files.Limits{TotalBytes: 14}, files.DirOptions{}, false},
		{"depth", dir, files.Limits{Depth: 1}, files.DirOptions{}, false},
		{"path", dir, files.Limits{PathBytes: 2}, files.DirOptions{}, false},
		{"sparse", vast, files.Limits{}, files.DirOptions{}, false},
	} {
		s := newMemory()
		l := newLibrary(t, s, files.Options{Limits: c.limits})
		ref, err := l.CommitDir(t.Context(), org, "", c.dir, c.options)
		if c.ok {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		wantRefused(t, ref, err, "")
		if keys := s.keys(); len(keys) > 0 {
			t.Errorf("%s: the store contains %q", c.name, keys)
		}
	}
}

func TestCancelledScan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 40 {
		write(t, dir, map[string]string{fmt.Sprint("f", i): string(noise(byte(i), 1<<20))})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	_, err := l.CommitDir(ctx, org, "", dir, files.DirOptions{Ignore: func(path string, _ bool) bool {
		if path == "f9" {
			cancel(why)
		}
		return false
	}})
	if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("CommitDir = %v, want the cause", err)
	}
	if keys := s.keys(); len(keys) > 0 {
		t.Errorf("the store contains %q", keys)
	}
}

// TestUnreadableFilesAreNamed runs the commit in a process without privileges,
// because a privileged process can read everything.
func TestUnreadableFilesAreNamed(t *testing.T) {
	t.Parallel()
	for _, hidden := range []string{"d/file", "d/folder"} {
		dir, err := os.MkdirTemp("/tmp", "stint-content-test-*")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		write(t, dir, map[string]string{"d/file": "1", "d/folder/f": "2"})
		for p, mode := range map[string]fs.FileMode{"": 0o755, hidden: 0} {
			if err := os.Chmod(filepath.Join(dir, p), mode); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command("/proc/self/exe")
		c.Env = []string{"STINT_TEST_SCAN=" + dir}
		c.Dir = "/"
		if os.Geteuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := c.CombinedOutput()
		if want := fmt.Sprintf("invalid_parameter: '%s' cannot be read: permission denied.", hidden); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s hidden: %q, %v", hidden, out, err)
		}
	}
}

// scanUnprivileged runs in the process that TestUnreadableFilesAreNamed starts. It
// prints the error of the commit and returns the exit code.
func scanUnprivileged() int {
	l, err := files.New(newMemory(), files.Options{})
	if err == nil {
		_, err = l.CommitDir(context.Background(), org, "", os.Getenv("STINT_TEST_SCAN"), files.DirOptions{})
	}
	fmt.Println(err)
	return 0
}

// manyNames determines the number of entries, and their limit, in
// TestSoakFolderOfManyNames.
const manyNames = 4 << 10

// TestSoakFolderOfManyNames checks out and commits a folder of many entries, and
// checks that a folder with more entries than the limit is refused.
func TestSoakFolderOfManyNames(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	dir := t.TempDir()
	var items []item
	for i := range manyNames + 2000 {
		items = append(items, item{name: fmt.Sprintf("%x", i*7919), target: "x", mtime: time.Unix(0, 0)})
	}
	want := stored(t, l, "", items...)
	if err := l.Checkout(t.Context(), org, want.Digest, dir); err != nil {
		t.Fatal(err)
	}
	if ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{}); err != nil || ref != want {
		t.Errorf("CommitDir = %+v, %v, want %+v", ref, err, want)
	}
	small := newLibrary(t, newMemory(), files.Options{Limits: files.Limits{Entries: manyNames + 1000}})
	ref, err := small.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
	wantRefused(t, ref, err, "entries")
}
