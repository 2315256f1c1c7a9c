package files_test

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/testkit/requirement"
	"pgregory.net/rapid"
)

// odd returns entries with names, modes, times, and sizes that are difficult for
// archives.
func odd() []item {
	long := strings.Repeat("long-name-", 25)
	return []item{
		{name: "empty"},
		{name: "empty-folder/", mode: 0o755},
		{name: "readonly-folder/", mode: 0o555},
		{name: "readonly-folder/inside", body: []byte("in a folder that nobody may write")},
		{name: "script", mode: 0o755, body: []byte("#!/bin/sh\n")},
		{name: "secret", mode: 0o600, body: []byte("x")},
		{name: "no-mode-but-one", mode: 0o001, body: []byte("y")},
		{name: "sub-second", mtime: time.Unix(1_700_000_000, 123_456_789)},
		{name: "epoch", mtime: time.Unix(0, 0)},
		{name: "before-epoch", mtime: time.Unix(-86_400, 500_000_000)},
		{name: "just-before-epoch", mtime: time.Unix(-1, 500_000_000)},
		{name: "far-future", mtime: time.Unix(1<<33+5, 1)},
		{name: "line\nbreak", body: []byte("n")},
		{name: "tab\tand \"quotes\" and \\", body: []byte("t")},
		{name: "ünïcödé-日本", body: []byte("u")},
		{name: "-rf", body: []byte("dash")},
		{name: "..."},
		{name: " leading and trailing "},
		{name: long, body: []byte("a name of 250 bytes")},
		{name: long + "/", mode: 0o755}, // oddTree replaces the name
		{name: "d/", mode: 0o755},
		{name: "d-e", body: []byte("sorts between d and d/ by bytes")},
		{name: "d/f", body: []byte("f")},
		{name: "d/link", target: "../script"},
		{name: "d/dangling", target: "nowhere/at/all"},
		{name: "d/up", target: ".."},
		{name: "long-link", target: strings.Repeat("x/", 90) + "y"},
		{name: "ünï-link", target: "ünïcödé-日本"},
		{name: "small.txt", body: text(1, 1000)},
		{name: "million.txt", body: text(2, 1<<20)},
		{name: "large.txt", body: text(3, 3<<20+17)},
		{name: "large.bin", body: noise(4, 5<<20+1)},
		{name: "small.bin", body: noise(5, 70_000)},
		{name: "zeros", body: make([]byte, 6<<20)},
		{name: "copy-of-large.bin", body: noise(4, 5<<20+1)},
	}
}

func oddTree() []item {
	items := odd()
	for i := range items {
		if len(items[i].name) == 251 {
			items[i].name = "p/" + strings.Repeat(strings.Repeat("q", 50)+"/", 8)
		}
	}
	deep := "p/"
	rest := items
	for range 8 {
		rest = append(rest, item{name: deep, mode: 0o700})
		deep += strings.Repeat("q", 50) + "/"
	}
	return rest
}

func TestRoundTripOfOddTree(t *testing.T) {
	t.Parallel()
	requirement.Root(t) // to read files that their owner cannot read
	items := oddTree()
	want := itemLooks(items)
	for format, pack := range map[files.Format]func(testing.TB, []byte) []byte{
		files.Tar: func(_ testing.TB, b []byte) []byte { return b }, files.TarGzip: gzipped, files.TarZstd: zstdOf,
	} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			l := newLibrary(t, newMemory(), files.Options{})
			ref, err := l.CommitArchive(t.Context(), org, "", format, bytes.NewReader(pack(t, tarOf(t, items...))))
			if err != nil {
				t.Fatal(err)
			}
			checkEverywhere(t, l, ref, want)
		})
	}
}

// checkEverywhere checks that the archive, the checkout, and Open return the wanted
// tree, and that committing the archive or the checkout returns the same reference.
func checkEverywhere(t testing.TB, l *files.Library, ref files.Ref, want map[string]look) {
	t.Helper()
	archive := readArchive(t, l, ref.Digest)
	if diff := cmp.Diff(want, archiveLooks(t, archive)); diff != "" {
		t.Errorf("the archive (-want +got):\n%s", diff)
	}
	dir := t.TempDir()
	if err := l.Checkout(t.Context(), org, ref.Digest, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, folderLooks(t, dir)); diff != "" {
		t.Errorf("the checkout (-want +got):\n%s", diff)
	}
	for _, parent := range []string{"", ref.Digest} {
		again, err := l.CommitDir(t.Context(), org, parent, dir, files.DirOptions{})
		if err != nil || again != ref {
			t.Errorf("committing the checkout returns %+v, %v, want %+v", again, err, ref)
		}
		again, err = l.CommitArchive(t.Context(), org, parent, files.TarGzip, bytes.NewReader(archive))
		if err != nil || again != ref {
			t.Errorf("uploading the archive returns %+v, %v, want %+v", again, err, ref)
		}
	}
	var size, files int64
	for path, k := range want {
		f, entry, err := l.Open(t.Context(), org, ref.Digest, path)
		if (err == nil) != (k.Kind == "file") {
			t.Errorf("Open(%q) of a %s: %v", path, k.Kind, err)
		}
		if err == nil {
			files++
			size += entry.Size
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if ref.Size != size || ref.Files != files {
		t.Errorf("the reference has %d bytes in %d files, want %d in %d", ref.Size, ref.Files, size, files)
	}
}

// TestRandomTree stores random trees, and reads them as archives and checkouts.
func TestRandomTree(t *testing.T) {
	t.Parallel()
	requirement.Root(t) // to read files that their owner cannot read
	l := newLibrary(t, newMemory(), files.Options{})
	previous := ""
	rapid.Check(t, func(rt *rapid.T) {
		items := drawTree(rt)
		parent := rapid.SampledFrom([]string{"", previous}).Draw(rt, "parent")
		ref, err := l.CommitArchive(t.Context(), org, parent, files.Tar, bytes.NewReader(tarOf(t, rapid.Permutation(items).Draw(rt, "order")...)))
		if err != nil {
			rt.Fatal(err)
		}
		want := itemLooks(items)
		if diff := cmp.Diff(want, archiveLooks(t, readArchive(t, l, ref.Digest))); diff != "" {
			rt.Errorf("the archive (-want +got):\n%s", diff)
		}
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		if err := l.Checkout(t.Context(), org, ref.Digest, dir); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, folderLooks(t, dir)); diff != "" {
			rt.Errorf("the checkout (-want +got):\n%s", diff)
		}
		if again, err := l.CommitDir(t.Context(), org, parent, dir, files.DirOptions{}); err != nil || again != ref {
			rt.Errorf("committing the checkout returns %+v, %v, want %+v", again, err, ref)
		}
		previous = ref.Digest
	})
}

// drawTree draws the entries of a random tree. Each folder of the tree has an entry.
func drawTree(rt *rapid.T) []item {
	var items []item
	folders := []string{""}
	taken := map[string]bool{}
	name := rapid.StringMatching(`[a-c\-._ é\n]{1,4}`)
	for range rapid.IntRange(0, 12).Draw(rt, "entries") {
		n := name.Draw(rt, "name")
		path := rapid.SampledFrom(folders).Draw(rt, "folder") + n
		if n == "." || n == ".." || taken[path] {
			continue
		}
		taken[path] = true
		i := item{
			name: path, mode: int64(rapid.IntRange(1, 0o777).Draw(rt, "mode")),
			mtime: time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(rt, "sec"), rapid.Int64Range(0, 999_999_999).Draw(rt, "nsec")),
		}
		switch rapid.IntRange(0, 4).Draw(rt, "kind") {
		case 0:
			i.name += "/"
			folders = append(folders, i.name)
		case 1:
			i.target = rapid.SampledFrom([]string{"a", "b/c", ".", "é", strings.Repeat("t/", 60) + "t"}).Draw(rt, "target")
		case 2:
			i.body = noise(byte(rapid.IntRange(0, 3).Draw(rt, "seed")), rapid.IntRange(0, 2000).Draw(rt, "size"))
		default:
			i.body = text(byte(rapid.IntRange(0, 3).Draw(rt, "seed")), rapid.IntRange(0, 9000).Draw(rt, "size"))
		}
		items = append(items, i)
	}
	return items
}

func TestEmptyTree(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "")
	if ref.Size != 0 || ref.Files != 0 {
		t.Errorf("the empty tree is %+v", ref)
	}
	checkEverywhere(t, l, ref, map[string]look{})
	page, more, err := l.List(t.Context(), org, ref.Digest, "", "", 10)
	if len(page) != 0 || more || err != nil {
		t.Errorf("Files = %v, %v, %v", page, more, err)
	}
}

// TestNamesOfAnyBytes stores a folder with names that are not UTF-8.
func TestNamesOfAnyBytes(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	dir := t.TempDir()
	for _, name := range []string{"latin-\xe9", "\xff\xfe", strings.Repeat("\xe9", 120)} {
		if err := os.WriteFile(dir+"/"+name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, dir+"/link-to-"+name); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkEverywhere(t, l, ref, folderLooks(t, dir))
}

func TestImpliedFolders(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "",
		item{name: "./x/y/z/file", body: []byte("1")},
		item{name: "x-y", body: []byte("2")},
		item{name: "x//y/./other", body: []byte("3")},
		item{name: "./", mode: 0o711},
		item{name: "late/file", body: []byte("4")},
		item{name: "late/", mode: 0o700},
	)
	implied := lookOf("dir", 0o755, time.Unix(0, 0), "", nil)
	checkEverywhere(t, l, ref, map[string]look{
		"x": implied, "x/y": implied, "x/y/z": implied,
		"x/y/z/file": lookOf("file", 0o644, someTime, "", []byte("1")),
		"x-y":        lookOf("file", 0o644, someTime, "", []byte("2")),
		"x/y/other":  lookOf("file", 0o644, someTime, "", []byte("3")),
		"late":       lookOf("dir", 0o700, someTime, "", nil),
		"late/file":  lookOf("file", 0o644, someTime, "", []byte("4")),
	})
}

func TestSpecialModeBitsAreDropped(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{
		"setuid": 0o755 | fs.ModeSetuid, "setgid": 0o755 | fs.ModeSetgid, "sticky": 0o777 | fs.ModeSticky,
	} {
		if err := os.Mkdir(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+"/"+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	fromDir, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fromArchive := stored(t, l, "", item{name: "f", mode: 0o7755}, item{name: "d/", mode: 0o6777})
	for _, digest := range []string{fromDir.Digest, fromArchive.Digest} {
		page, _, err := l.List(t.Context(), org, digest, "", "", 10)
		if err != nil || len(page) < 2 {
			t.Fatalf("Files = %v, %v", page, err)
		}
		for _, f := range page {
			if len(f.Mode) != 4 || f.Mode[0] != '0' {
				t.Errorf("%s has mode %s", f.Path, f.Mode)
			}
		}
	}
}
