package treewire_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

func sum(s string) treewire.Hash { return sha256.Sum256([]byte(s)) }

func folder(path string) *format.Entry {
	return &format.Entry{Path: path, Kind: format.Folder, Mode: 0o755, Sec: 12, Nsec: 999_999_999}
}

func file(path string, contents ...string) *format.Entry {
	e := &format.Entry{Path: path, Kind: format.File, Mode: 0o644, Sec: -5, Chunks: []format.Chunk{}}
	e.SHA256 = sum(strings.Join(contents, ""))
	for _, c := range contents {
		e.Chunks = append(e.Chunks, format.Chunk{Hash: sum(c), Size: uint32(len(c))})
		e.Size += int64(len(c))
	}
	return e
}

func link(path, target string) *format.Entry {
	return &format.Entry{Path: path, Kind: format.Symlink, Mode: 0o777, Target: target}
}

func tree(t testing.TB, entries ...*format.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := treewire.NewTreeWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readTree(b []byte) (entries []*format.Entry, err error) {
	r, err := treewire.NewTreeReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		} else if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
}

func TestTreeRoundTrip(t *testing.T) {
	t.Parallel()
	want := []*format.Entry{
		folder("a"), file("a/empty"), file("a/one", "1"), file("a-b", "x", "yy"), folder("b"), folder("b/c"),
		link("b/c/up", "../../a"), file("b\xff", strings.Repeat("z", 4096)),
	}
	got, err := readTree(tree(t, want...))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got, err := readTree(tree(t)); len(got) != 0 || err != nil {
		t.Errorf("the empty tree returned %v, %v", got, err)
	}
}

func TestInvalidTreesAreRefused(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]*format.Entry{
		"comes twice":       {file("a", "1"), file("a", "2")},
		"out of order":      {file("b", "1"), file("a", "2")},
		"below a link":      {link("a", "/etc"), file("a/passwd", "x")},
		"below a file":      {file("a"), file("a/b")},
		"folder is missing": {file("a/b")},
		"folder comes late": {folder("a"), file("b"), file("a/c")},
		"absolute":          {file("/etc/passwd")},
		"only a slash":      {file("/")},
		"leaves the tree":   {file("../x")},
		"above by a folder": {folder(".."), file("../x")},
		"leaves below":      {folder("a"), file("a/..")},
		"dot":               {folder(".")},
		"no path":           {folder("")},
		"NUL":               {file("a\x00b")},
		"double slash":      {folder("a"), file("a//b")},
		"no target":         {link("a", "")},
		"unknown kind":      {{Path: "a", Kind: 9}},
		"mode":              {{Path: "a", Kind: format.Folder, Mode: 0o4755}},
		"nanoseconds":       {{Path: "a", Kind: format.Folder, Nsec: 1_000_000_000}},
		"empty chunk":       {{Path: "a", Kind: format.File, Chunks: make([]format.Chunk, 1)}},
		"large chunk":       {{Path: "a", Kind: format.File, Chunks: []format.Chunk{{Size: treewire.MaxChunk + 1}}}},
		"endless path":      {folder(strings.Repeat("a", 1<<17))},
	} {
		if _, err := readTree(tree(t, entries...)); !errors.Is(err, treewire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIncompleteTreesAreRefused(t *testing.T) {
	t.Parallel()
	whole := tree(t, folder("a"), file("a/b", "1", "2"))
	for n := range whole {
		if _, err := readTree(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted as a tree", n, len(whole))
		}
	}
	plain := func(s string) []byte {
		z, _ := zstd.NewWriter(nil)
		return z.EncodeAll([]byte(s), nil)
	}
	for _, s := range []string{"", "stint-t2", "stint-t1", "stint-t1\x02", "stint-t1\x00more", "stint-t1\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if _, err := readTree(plain(s)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q returned %v", s, err)
		}
	}
}

func frames(fs ...treewire.Frame) []byte {
	b := treewire.AppendFramesHead(nil)
	for i := range fs {
		b = treewire.AppendFrame(b, &fs[i])
	}
	return treewire.AppendFramesEnd(b)
}

func readFrames(b []byte) (got []treewire.Frame, err error) {
	r := treewire.NewFrameReader(bytes.NewReader(b))
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got, nil
		} else if err != nil {
			return got, err
		}
		f.Segment = bytes.Clone(f.Segment)
		got = append(got, f)
	}
}

func TestFramesRoundTrip(t *testing.T) {
	t.Parallel()
	want := []treewire.Frame{{sum("a"), 1, []byte("segment")}, {sum("b"), treewire.MaxChunk, bytes.Repeat([]byte("x"), treewire.MaxChunk)}}
	b := frames(want...)
	got, err := readFrames(b)
	if err != nil || len(got) != 2 || !reflect.DeepEqual(want, got) { // cmp is slow for large slices
		t.Errorf("read %d frames, or other frames, %v", len(got), err)
	}
	if want := len("stint-c1") + 40 + 7 + 40 + treewire.MaxChunk + 8; len(b) != want {
		t.Errorf("the frames have %d bytes, not %d", len(b), want)
	}
	short := frames(want[0])
	for n := range short {
		if _, err := readFrames(short[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d of %d bytes returned %v", n, len(short), err)
		}
	}
	for name, bad := range map[string][]byte{
		"magic": []byte("stint-c2........"), "large": frames(treewire.Frame{Raw: treewire.MaxChunk + 1, Segment: []byte("x")}),
		"empty": frames(treewire.Frame{Segment: []byte("x")}), "no segment": frames(treewire.Frame{Raw: 1}),
		"large segment": frames(treewire.Frame{Raw: 1, Segment: make([]byte, treewire.MaxChunk+4096)}),
	} {
		if _, err := readFrames(bad); !errors.Is(err, treewire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHashes(t *testing.T) {
	t.Parallel()
	want := []treewire.Hash{sum("a"), sum("b")}
	got, err := treewire.ReadHashes(bytes.NewReader(treewire.AppendHashes(nil, want)))
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, n := range []int{1, 33, 32*treewire.MaxHashes + 1, 32*treewire.MaxHashes + 32} {
		if _, err := treewire.ReadHashes(bytes.NewReader(make([]byte, n))); !errors.Is(err, treewire.ErrMalformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	s := treewire.Selection{After: "a/b"}
	for _, n := range []int64{0, 1, 2, 7, 9, 10, 5000} {
		s.Add(n)
	}
	want := treewire.Selection{"a/b", []treewire.Range{{0, 3}, {7, 1}, {9, 2}, {5000, 1}}}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	got, err := treewire.ReadSelection(bytes.NewReader(s.Append(nil)))
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range []string{
		"", "\x00", "\x80", "\x02a", "\x00\x00", "\x00\x00\x00", "\x00\x00\x01\x00\x01", "\x00\x80",
		"\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\xff\xff\xff\xff\x7f\x01",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		if got, err := treewire.ReadSelection(strings.NewReader(bad)); !errors.Is(err, treewire.ErrMalformed) {
			t.Errorf("%q returned %v, %v", bad, got, err)
		}
	}
}

// FuzzReaders passes arbitrary bytes to the readers of trees, frames, and
// selections. If a reader accepts them, its result must not change when it is
// encoded and read again.
func FuzzReaders(f *testing.F) {
	f.Add(tree(f, folder("a"), file("a/b", "1", "2"), link("c", "a")))
	f.Add(frames(treewire.Frame{Hash: sum("a"), Raw: 1, Segment: []byte("segment")}))
	f.Add((&treewire.Selection{"a", []treewire.Range{{0, 3}, {7, 1}}}).Append(nil))
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, z.EncodeAll(append([]byte("stint-t1"), b...), nil)} {
			if entries, err := readTree(b); err == nil {
				again, err := readTree(tree(t, entries...))
				same(t, entries, again, err)
			}
		}
		if got, err := readFrames(b); err == nil {
			again, err := readFrames(frames(got...))
			same(t, got, again, err)
		}
		if got, err := treewire.ReadSelection(bytes.NewReader(b)); err == nil {
			again, err := treewire.ReadSelection(bytes.NewReader(got.Append(nil)))
			same(t, got, again, err)
		}
	})
}

func same[T any](t *testing.T, want, got T, err error) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}
