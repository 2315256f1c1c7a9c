package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
	"pgregory.net/rapid"
)

func TestMissingDigest(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	valid := stored(t, l, "", item{name: "f"}).Digest
	ctx := t.Context()
	for _, digest := range []string{strings.Repeat("0", 64), "", "../" + valid, valid[:63], strings.ToUpper(valid), valid + "0", strings.Repeat("/", 64)} {
		for name, call := range map[string]func() error{
			"Download":  func() error { _, err := l.Download(ctx, org, digest, files.TarGzip); return err },
			"Checkout":  func() error { return l.Checkout(ctx, org, digest, t.TempDir()) },
			"List":      func() error { _, _, err := l.List(ctx, org, digest, "", "", 1); return err },
			"Open":      func() error { _, _, err := l.Open(ctx, org, digest, "f"); return err },
			"Diff":      func() error { _, err := l.DiffAll(ctx, org, valid, digest); return err },
			"CommitDir": func() error { _, err := l.CommitDir(ctx, org, digest, t.TempDir(), files.DirOptions{}); return err },
			"CommitArchive": func() error {
				_, err := l.CommitArchive(ctx, org, digest, files.Tar, bytes.NewReader(tarOf(t)))
				return err
			},
		} {
			err := call()
			if digest == "" && (name == "Diff" || strings.HasPrefix(name, "Commit")) {
				if err != nil {
					t.Errorf("%s of the empty tree: %v", name, err)
				}
			} else if !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s(%q) = %v, want ErrNotFound", name, digest, err)
			}
		}
	}
}

func TestOrganisationsAreIsolated(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "", item{name: "f"})
	if _, err := l.Download(t.Context(), "org_other", ref.Digest, files.TarGzip); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("download of another organisation's tree: %v, want ErrNotFound", err)
	}
	for _, bad := range []string{"", "org_", "org_../x", "org_a/b", "org_A", "x", "run_1", "org_\x00"} {
		if _, err := l.Download(t.Context(), bad, ref.Digest, files.TarGzip); err == nil {
			t.Errorf("the organisation %q was accepted", bad)
		}
		if _, err := l.CommitArchive(t.Context(), bad, "", files.Tar, bytes.NewReader(tarOf(t))); err == nil {
			t.Errorf("the organisation %q was accepted", bad)
		}
		if _, err := l.DiffAll(t.Context(), bad, "", ""); err == nil {
			t.Errorf("the organisation %q was accepted", bad)
		}
	}
}

func TestSoakListInPages(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	var items []item
	for i := range 2500 {
		items = append(items, item{name: fmt.Sprintf("d%d/%s-%d", i%7, strings.Repeat("n", i%90), i)})
	}
	for i := range 7 {
		items = append(items, item{name: fmt.Sprintf("d%d/", i), mode: 0o755}, item{name: fmt.Sprintf("d%d-x", i)})
	}
	ref := stored(t, l, "", items...)
	var want []string
	for _, i := range items {
		want = append(want, strings.TrimSuffix(i.name, "/"))
	}
	slices.SortFunc(want, files.ComparePaths)
	rapid.Check(t, func(rt *rapid.T) {
		var got []string
		for more, after := true, ""; more; {
			page, m, err := l.List(t.Context(), org, ref.Digest, "", after, rapid.IntRange(1, 1500).Draw(rt, "limit"))
			if err != nil || len(page) == 0 {
				rt.Fatalf("List after %q = %d entries, %v", after, len(page), err)
			}
			for _, f := range page {
				got = append(got, f.Path)
			}
			more, after = m, got[len(got)-1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("the pages (-want +got):\n%s", diff)
		}
	})
	page, more, err := l.List(t.Context(), org, ref.Digest, "", "d3/nnn", 1)
	if err != nil || !more || len(page) != 1 || files.ComparePaths(page[0].Path, "d3/nnn") <= 0 {
		t.Errorf("List after a missing path: %v, %v, %v", page, more, err)
	}
	if page, more, err := l.List(t.Context(), org, ref.Digest, "", "\xff", 5); len(page) != 0 || more || err != nil {
		t.Errorf("List after the last path: %v, %v, %v", page, more, err)
	}
}

func TestFileEntries(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "",
		item{name: "f", mode: 0o640, body: []byte("hello")}, item{name: "empty"},
		item{name: "d/", mode: 0o755}, item{name: "l", target: "f"})
	got, _, err := l.List(t.Context(), org, ref.Digest, "", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	at := stint.TimeOf(someTime)
	want := []stint.FileEntry{
		{Path: "d", Kind: "dir", Mode: "0755", ModifiedAt: at},
		{Path: "empty", Kind: "file", Mode: "0644", ModifiedAt: at, SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{Path: "f", Kind: "file", Mode: "0640", Size: 5, ModifiedAt: at, SHA256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},
		{Path: "l", Kind: "symlink", Mode: "0777", Target: "f", ModifiedAt: at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestRandomReads(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	bodies := map[string][]byte{
		"empty": {}, "small": text(1, 100), "dir/exact": text(2, 1<<20), "dir/over": noise(3, 1<<20+1), "large": noise(4, 7<<20),
	}
	var items []item
	for name, body := range bodies {
		items = append(items, item{name: name, body: body})
	}
	ref := stored(t, l, "", append(items, item{name: "link", target: "small"})...)
	for name, body := range bodies {
		f, e, err := l.Open(t.Context(), org, ref.Digest, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(f, body); err != nil {
			t.Errorf("%s: %.300s", name, err)
		}
		if e.Path != name || e.Size != int64(len(body)) {
			t.Errorf("the entry of %s is %+v", name, e)
		}
		rapid.Check(t, func(rt *rapid.T) {
			offset := rapid.IntRange(0, len(body)).Draw(rt, "offset")
			n := rapid.IntRange(0, len(body)-offset).Draw(rt, "n")
			got := make([]byte, n)
			_, err := f.Seek(int64(offset), io.SeekStart)
			if _, err2 := io.ReadFull(f, got); err != nil || err2 != nil || !bytes.Equal(got, body[offset:offset+n]) {
				rt.Errorf("%s[%d:%d] differs, or errors: %v, %v", name, offset, offset+n, err, err2)
			}
		})
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := f.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("Read after Close = %v", err)
		}
	}
	for path, want := range map[string]stint.Kind{
		"none": stint.KindNotFound, "": stint.KindNotFound, "dir/none": stint.KindNotFound, "small/x": stint.KindNotFound, "../small": stint.KindNotFound,
		"dir": stint.KindInvalid, "link": stint.KindInvalid,
	} {
		if _, _, err := l.Open(t.Context(), org, ref.Digest, path); err == nil || stint.KindOf(err) != want {
			t.Errorf("Open(%q) = %v, want an error of kind %v", path, err, want)
		}
	}
}

func TestReadersEndWithContext(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "", item{name: "f", body: noise(1, 4<<20)})
	ctx, cancel := context.WithCancel(t.Context())
	f, _, err := l.Open(ctx, org, ref.Digest, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if _, err := io.ReadAll(f); !errors.Is(err, context.Canceled) {
		t.Errorf("reading = %v, want context.Canceled", err)
	}
	if err := l.Checkout(ctx, org, ref.Digest, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("Checkout = %v, want context.Canceled", err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	later := someTime.Add(time.Hour)
	from := stored(t, l, "",
		item{name: "same", body: []byte("1")}, item{name: "touched", body: []byte("2")}, item{name: "content", body: []byte("3")},
		item{name: "mode", body: []byte("4")}, item{name: "gone", body: []byte("5")}, item{name: "kind", body: []byte("6")},
		item{name: "link", target: "same"}, item{name: "d/", mode: 0o755}, item{name: "d/gone-too"})
	to := stored(t, l, from.Digest,
		item{name: "same", body: []byte("1")}, item{name: "touched", body: []byte("2"), mtime: later}, item{name: "content", body: []byte("x")},
		item{name: "mode", mode: 0o755, body: []byte("4")}, item{name: "kind/", mode: 0o755}, item{name: "kind/inside"},
		item{name: "link", target: "mode"}, item{name: "d/", mode: 0o755, mtime: later}, item{name: "a-new"}, item{name: "z-new"})
	type line struct{ Change, Path, From, To string }
	lines := func(a, b string) []line {
		t.Helper()
		changes, err := l.DiffAll(t.Context(), org, a, b)
		if err != nil {
			t.Fatal(err)
		}
		out := []line{}
		for _, c := range changes {
			n := line{Change: c.Change, Path: c.Path}
			if c.From != nil {
				n.From = c.From.Kind + c.From.Mode
			}
			if c.To != nil {
				n.To = c.To.Kind + c.To.Mode
			}
			out = append(out, n)
		}
		return out
	}
	want := []line{
		{"added", "a-new", "", "file0644"},
		{"changed", "content", "file0644", "file0644"},
		{"removed", "d/gone-too", "file0644", ""},
		{"removed", "gone", "file0644", ""},
		{"changed", "kind", "file0644", "dir0755"},
		{"added", "kind/inside", "", "file0644"},
		{"changed", "link", "symlink0777", "symlink0777"},
		{"changed", "mode", "file0644", "file0755"},
		{"added", "z-new", "", "file0644"},
	}
	if diff := cmp.Diff(want, lines(from.Digest, to.Digest)); diff != "" {
		t.Errorf("Diff (-want +got):\n%s", diff)
	}
	if n := len(lines("", from.Digest)); n != 9 {
		t.Errorf("from the empty tree there are %d changes, want 9", n)
	}
	if n := len(lines(from.Digest, "")); n != 9 {
		t.Errorf("to the empty tree there are %d changes, want 9", n)
	}
	if n := len(lines(from.Digest, from.Digest)) + len(lines("", "")); n != 0 {
		t.Errorf("between equal trees there are %d changes", n)
	}
}

// TestDiffOfDamagedTree checks that DiffAll returns an error for a damaged manifest,
// and does not treat the damage as the end of the tree.
func TestDiffOfDamagedTree(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	var items []item
	for i := range 9000 {
		items = append(items, item{name: fmt.Sprintf("%x", noise(byte(i), 12+i/256))})
	}
	from := stored(t, l, "", items...)
	to := stored(t, l, "", items[1:]...)
	key := org + "/manifests/" + from.Digest
	s.objects[key] = bytes.Clone(s.objects[key])
	s.objects[key][100] ^= 1
	for _, pair := range [][2]string{{from.Digest, to.Digest}, {to.Digest, from.Digest}, {from.Digest, ""}} {
		if changes, err := l.DiffAll(t.Context(), org, pair[0], pair[1]); err == nil {
			t.Errorf("Diff returns %d changes and no error", len(changes))
		}
	}
}

func TestCheckoutNeedsEmptyFolder(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	ref := stored(t, l, "", item{name: "f"})
	dir := t.TempDir()
	if err := l.Checkout(t.Context(), org, ref.Digest, dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Checkout(t.Context(), org, ref.Digest, dir); err == nil {
		t.Error("a folder that is not empty was accepted")
	}
	if err := l.Checkout(t.Context(), org, ref.Digest, dir+"/none"); err == nil {
		t.Error("a missing folder was accepted")
	}
}

func TestPathOrder(t *testing.T) {
	t.Parallel()
	inOrder := []string{"a", "a/b", "a/b/c", "a/b!", "a/b-c", "a!", "a!/x", "a-b", "a.b", "aa", "b"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := files.ComparePaths(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("ComparePaths(%q, %q) = %d", a, b, got)
			}
		}
	}
}

func TestStat(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	want := stored(t, l, "", item{name: "d/"}, item{name: "d/a", body: []byte("12345")}, item{name: "b", body: []byte("1")})
	got, err := l.Stat(t.Context(), org, want.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Stat (-want +got):\n%s", diff)
	}
	if _, err := l.Stat(t.Context(), org, strings.Repeat("0", 64)); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat of a missing tree: %v, want ErrNotFound", err)
	}
}
