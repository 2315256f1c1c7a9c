package folder_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/cli/folder"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tree is a folder as a map: "dir/" for folders, "-> target" for links.
type tree map[string]string

func plant(t *testing.T, files tree) string {
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

func harvest(t *testing.T, dir string) tree {
	t.Helper()
	got := tree{}
	must(t, filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, full)
		switch {
		case err != nil || name == ".":
		case d.IsDir():
			got[name+"/"] = ""
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(full)
			got[name] = "-> " + target
		default:
			content, _ := os.ReadFile(full)
			got[name] = string(content)
		}
		return err
	}))
	return got
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, dir string) []byte {
	t.Helper()
	f, err := folder.Open(t.Context(), dir)
	must(t, err)
	defer f.Close()
	var b bytes.Buffer
	var told int64
	must(t, f.Pack(t.Context(), &b, func(n int) { told += int64(n) }))
	if told != f.Size {
		t.Errorf("progress told of %d bytes, the folder has %d", told, f.Size)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	files := tree{
		"a.txt": "hello", "empty": "", "d/": "", "d/ü 日本.txt": "x", "d/deep/er/file": strings.Repeat("long", 100_000),
		"hollow/": "", "link": "-> d/deep", "d/up": "-> ../a.txt", "d/deep/": "", "d/deep/er/": "", "broken": "-> nowhere",
		"with\nnewline": "odd", strings.Repeat("n", 200): "long name",
	}
	dir := plant(t, files)
	must(t, os.Chmod(filepath.Join(dir, "hollow"), 0o511))
	archive := pack(t, dir)
	to := filepath.Join(t.TempDir(), "new", "folder")
	done, err := folder.Unpack(t.Context(), bytes.NewReader(archive), to)
	must(t, err)
	if diff := cmp.Diff(files, harvest(t, to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if done.Files != 6 || done.Size != 5+1+400_000+3+9 {
		t.Errorf("done is %+v", done)
	}
	info, err := os.Stat(filepath.Join(to, "a.txt"))
	must(t, err)
	hollow, err := os.Stat(filepath.Join(to, "hollow"))
	must(t, err)
	if info.Mode().Perm() != 0o640 || !info.ModTime().Equal(moment) || hollow.Mode().Perm() != 0o511 {
		t.Errorf("modes %v and %v, time %v", info.Mode(), hollow.Mode(), info.ModTime())
	}
	if !bytes.Equal(archive, pack(t, dir)) {
		t.Error("the same folder gave other bytes")
	}
	// Once more over what is there.
	_, err = folder.Unpack(t.Context(), bytes.NewReader(archive), to)
	must(t, err)
	if diff := cmp.Diff(files, harvest(t, to)); diff != "" {
		t.Errorf("second time (-want +got):\n%s", diff)
	}
}

func TestPackLeavesOutWhatIsIgnored(t *testing.T) {
	t.Parallel()
	dir := plant(t, tree{
		".stintignore": "*.tmp\n/build/\n", "a.txt": "a", "x.tmp": "", "build/out": "", "sub/build/out": "s",
		"sub/.stintignore": "!x.tmp\nsecret", "sub/x.tmp": "kept", "sub/secret": "", "sub/more/secret": "",
	})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	f, err := folder.Open(t.Context(), dir)
	must(t, err)
	if diff := cmp.Diff([]string{"pipe"}, f.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	must(t, f.Close())
	to := t.TempDir()
	_, err = folder.Unpack(t.Context(), bytes.NewReader(pack(t, dir)), to)
	must(t, err)
	want := tree{
		".stintignore": "*.tmp\n/build/\n", "a.txt": "a", "sub/": "", "sub/build/": "", "sub/build/out": "s",
		"sub/.stintignore": "!x.tmp\nsecret", "sub/x.tmp": "kept", "sub/more/": "",
	}
	if diff := cmp.Diff(want, harvest(t, to)); diff != "" {
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
		if _, err := folder.Open(t.Context(), plant(t, tt.files)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, tt.want)
		}
	}
	if _, err := folder.Open(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want %v", err, fs.ErrNotExist)
	}
}

func TestPackTellsThatAFileShrank(t *testing.T) {
	t.Parallel()
	dir := plant(t, tree{"f": "0123456789"})
	f, err := folder.Open(t.Context(), dir)
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
	dir := plant(t, tree{"f": "x"})
	archive := pack(t, dir)
	f, err := folder.Open(ctx, dir)
	must(t, err)
	defer f.Close()
	cancel()
	_, openErr := folder.Open(ctx, dir)
	_, unpackErr := folder.Unpack(ctx, bytes.NewReader(archive), t.TempDir())
	for name, err := range map[string]error{"open": openErr, "pack": f.Pack(ctx, &bytes.Buffer{}, nil), "unpack": unpackErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error is %v, want %v", name, err, context.Canceled)
		}
	}
}

// archive makes a tar.gz of the headers, each regular file holding "evil".
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	out := tar.NewWriter(zip)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		must(t, out.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			fmt.Fprint(out, "evil")
		}
	}
	must(t, out.Close())
	must(t, zip.Close())
	return b.Bytes()
}

func TestUnpackStaysInside(t *testing.T) {
	t.Parallel()
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644} }
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	tests := map[string][]tar.Header{
		"parent":                 {file("../x")},
		"parent within":          {file("a/../../x")},
		"absolute":               {file("/x")},
		"absolute link":          {link("l", "/etc")},
		"leaving link":           {link("a/l", "../..")},
		"device":                 {{Name: "d", Typeflag: tar.TypeChar}},
		"fifo":                   {{Name: "p", Typeflag: tar.TypeFifo}},
		"hard link":              {{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"through a planted link": {file("out/x")},
		"file under a file":      {file("f"), file("f/g")},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			dir := t.TempDir()
			must(t, os.Symlink(outside, filepath.Join(dir, "out")))
			if _, err := folder.Unpack(t.Context(), bytes.NewReader(archive(t, headers...)), dir); err == nil {
				t.Error("no error")
			}
			if got := harvest(t, outside); len(got) > 0 {
				t.Errorf("written outside: %v", got)
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "x")); err == nil {
				t.Error("written beside the folder")
			}
		})
	}
}

func TestUnpackReplacesAndStrips(t *testing.T) {
	t.Parallel()
	outside := plant(t, tree{"target": "mine"})
	dir := plant(t, tree{"f": "old", "l": "-> " + filepath.Join(outside, "target"), "d": "a file", "other": "stays"})
	_, err := folder.Unpack(t.Context(), bytes.NewReader(archive(t,
		tar.Header{Name: "./f", Typeflag: tar.TypeReg, Mode: 0o6755},
		tar.Header{Name: "l", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0},
	)), dir)
	must(t, err)
	if diff := cmp.Diff(tree{"f": "evil", "l": "evil", "d/": "", "other": "stays"}, harvest(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tree{"target": "mine"}, harvest(t, outside)); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "f"))
	must(t, err)
	if info.Mode() != 0o755 {
		t.Errorf("mode is %v, want -rwxr-xr-x", info.Mode())
	}
}

func TestUnpackNoticesDamage(t *testing.T) {
	t.Parallel()
	whole := pack(t, plant(t, tree{"f": strings.Repeat("content", 1000)}))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	for name, damaged := range map[string][]byte{
		"nothing": nil, "no archive": []byte("<html>not found</html>"), "cut": whole[:len(whole)-1], "half": whole[:len(whole)/2], "checksum": flipped,
	} {
		if _, err := folder.Unpack(t.Context(), bytes.NewReader(damaged), t.TempDir()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPackBytes(t *testing.T) {
	t.Parallel()
	b, err := folder.PackBytes(fstest.MapFS{"a/b": {Data: []byte("x")}, "c": {Data: []byte("y")}})
	must(t, err)
	dir := t.TempDir()
	_, err = folder.Unpack(t.Context(), bytes.NewReader(b), dir)
	must(t, err)
	if diff := cmp.Diff(tree{"a/": "", "a/b": "x", "c": "y"}, harvest(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzUnpack holds Unpack to: whatever the archive, nothing is written outside.
func FuzzUnpack(f *testing.F) {
	f.Add("../x", byte(tar.TypeReg), "")
	f.Add("a", byte(tar.TypeSymlink), "..")
	f.Add("a/./b//c/", byte(tar.TypeDir), "")
	f.Fuzz(func(t *testing.T, name string, kind byte, target string) {
		var b bytes.Buffer
		zip := gzip.NewWriter(&b)
		out := tar.NewWriter(zip)
		for _, h := range []tar.Header{{Name: name, Typeflag: kind, Linkname: target}, {Name: name + "/x", Typeflag: tar.TypeReg}} {
			if out.WriteHeader(&h) != nil {
				return
			}
		}
		must(t, errors.Join(out.Close(), zip.Close()))
		parent := t.TempDir()
		_, _ = folder.Unpack(t.Context(), &b, filepath.Join(parent, "in"))
		entries, err := os.ReadDir(parent)
		must(t, err)
		if len(entries) != 1 {
			t.Errorf("%q %q %q: %v", name, kind, target, entries)
		}
	})
}
