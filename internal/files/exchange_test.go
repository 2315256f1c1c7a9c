package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/index"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// exchanging returns a library with an index.
func exchanging(t testing.TB, s *memory, o files.Options) *files.Library {
	t.Helper()
	x, err := index.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	o.Index = x
	return newLibrary(t, s, o)
}

// taken returns the encoded tree with the digest, and the frames of its chunks.
func taken(t testing.TB, l *files.Library, digest string) ([]byte, []treewire.Frame) {
	t.Helper()
	var tree, chunks bytes.Buffer
	if err := l.WriteTree(t.Context(), org, digest, &tree); err != nil {
		t.Fatal(err)
	}
	var s treewire.Selection
	n := int64(0)
	for _, e := range read(t, tree.Bytes()) {
		for range e.Chunks {
			s.Add(n)
			n++
		}
	}
	if n == 0 {
		return tree.Bytes(), nil
	}
	if err := l.WriteChunks(t.Context(), org, digest, s, &chunks); err != nil {
		t.Fatal(err)
	}
	var frames []treewire.Frame
	in := treewire.NewFrameReader(&chunks)
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return tree.Bytes(), frames
		} else if err != nil {
			t.Fatal(err)
		}
		f.Segment = bytes.Clone(f.Segment)
		frames = append(frames, f)
	}
}

func read(t testing.TB, tree []byte) (all []*format.Entry) {
	t.Helper()
	r, err := treewire.NewTreeReader(bytes.NewReader(tree))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func written(t testing.TB, entries []*format.Entry) []byte {
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

func framed(frames ...treewire.Frame) []byte {
	b := treewire.AppendFramesHead(nil)
	for i := range frames {
		b = treewire.AppendFrame(b, &frames[i])
	}
	return treewire.AppendFramesEnd(b)
}

func hashesOf(frames []treewire.Frame) (all [][32]byte) {
	for _, f := range frames {
		all = append(all, f.Hash)
	}
	return all
}

// some returns a tar with a large file, a file larger than MaxSingleChunk without a
// cut point, two equal files, an empty file, and a symbolic link.
func some(t testing.TB) []byte {
	return tarOf(t,
		item{name: "a/"}, item{name: "a/large", body: noise(1, 5<<20)}, item{name: "a/one", body: text(1, 3000)},
		item{name: "a/same", body: text(1, 3000)}, item{name: "b", body: nil}, item{name: "c", target: "a/one"},
		item{name: "middle", body: text(3, 1<<20)}, item{name: "uncut", body: make([]byte, 3<<19)}, item{name: "z/", mode: 0o700},
	)
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code
	}
	return ""
}

// TestExchangeRoundTrip copies a tree to another store as entries and chunks. The
// copy has the same digest and the same archive.
func TestExchangeRoundTrip(t *testing.T) {
	t.Parallel()
	from, to := exchanging(t, newMemory(), files.Options{}), exchanging(t, newMemory(), files.Options{})
	ref, err := from.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(some(t)))
	if err != nil {
		t.Fatal(err)
	}
	tree, frames := taken(t, from, ref.Digest)
	if _, err := to.CommitEntries(t.Context(), org, "", bytes.NewReader(tree)); codeOf(err) != stint.CodeChunksMissing {
		t.Fatalf("a tree without its chunks gave %v", err)
	}
	missing, err := to.MissingChunks(t.Context(), org, hashesOf(frames))
	if d := cmp.Diff(hashesOf(frames), missing); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, f := range frames {
		if _, err := to.PutChunks(t.Context(), org, bytes.NewReader(framed(f, f))); err != nil {
			t.Fatal(err)
		}
	}
	if missing, err := to.MissingChunks(t.Context(), org, hashesOf(frames)); len(missing) != 0 || err != nil {
		t.Errorf("still missing: %x, %v", missing, err)
	}
	if missing, err := to.MissingChunks(t.Context(), "org_other", hashesOf(frames)); len(missing) != len(frames) || err != nil {
		t.Errorf("another organisation lacks %d, %v", len(missing), err)
	}
	got, err := to.CommitEntries(t.Context(), org, "", bytes.NewReader(tree))
	if d := cmp.Diff(ref, got); d != "" || err != nil {
		t.Fatal(d, err)
	}
	if !bytes.Equal(readArchive(t, from, ref.Digest), readArchive(t, to, ref.Digest)) {
		t.Error("the archives differ")
	}
}

// TestMissingChunks checks which chunks are reported as missing before and after the
// index is lost, and after all packs are deleted.
func TestMissingChunks(t *testing.T) {
	t.Parallel()
	s := newMemory()
	first := exchanging(t, s, files.Options{})
	ref, err := first.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(some(t)))
	if err != nil {
		t.Fatal(err)
	}
	tree, frames := taken(t, first, ref.Digest)
	lacks := func(l *files.Library) int {
		missing, err := l.MissingChunks(t.Context(), org, hashesOf(frames))
		if err != nil {
			t.Fatal(err)
		}
		return len(missing)
	}
	if n := lacks(first); n != 0 {
		t.Errorf("%d chunks of a version are missing", n)
	}
	if n := lacks(exchanging(t, s, files.Options{})); n != len(frames) {
		t.Errorf("packs that a commit might still withdraw count: only %d of %d chunks are missing", n, len(frames))
	}
	tomorrow := files.Options{Now: func() time.Time { return time.Now().Add(25 * time.Hour) }}
	second := exchanging(t, s, tomorrow)
	if n := lacks(second); n != 0 {
		t.Errorf("%d chunks are missing for a library with a new index", n)
	}
	for _, key := range s.keys() {
		if strings.Contains(key, "/packs/") {
			if err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := second.CommitEntries(t.Context(), org, "", bytes.NewReader(tree)); codeOf(err) != stint.CodeChunksMissing {
		t.Errorf("a tree in packs that are gone gave %v", err)
	}
	if n := lacks(second); n != len(frames) {
		t.Errorf("only %d of %d chunks are missing when the packs are gone", n, len(frames))
	}
}

// TestChunksOfAnotherServer checks that a library finds chunks that another library
// stored in the same store.
func TestChunksOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := newMemory()
	a, b := exchanging(t, s, files.Options{}), exchanging(t, s, files.Options{})
	source := exchanging(t, newMemory(), files.Options{})
	ref, err := source.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(some(t)))
	if err != nil {
		t.Fatal(err)
	}
	tree, frames := taken(t, source, ref.Digest)
	if missing, err := b.MissingChunks(t.Context(), org, hashesOf(frames)); len(missing) != len(frames) || err != nil {
		t.Fatal(len(missing), err)
	}
	if _, err := a.PutChunks(t.Context(), org, bytes.NewReader(framed(frames...))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CommitEntries(t.Context(), org, "", bytes.NewReader(tree)); err != nil {
		t.Error(err)
	}
}

// markedKeys is a database in which the objects with these keys are marked.
type markedKeys struct{ keys []string }

func (s *markedKeys) Marked(context.Context, string) (int64, []string, error) {
	return 3, s.keys, nil
}

func packsOf(s *memory) (packs []string) {
	for _, key := range s.keys() {
		if strings.Contains(key, "/packs/") {
			packs = append(packs, key)
		}
	}
	return packs
}

// TestExchangeAvoidsMarkedObjects checks that chunks in marked packs are reported as
// missing, and that a commit stores its parent's chunks again if their packs are marked.
func TestExchangeAvoidsMarkedObjects(t *testing.T) {
	t.Parallel()
	source := exchanging(t, newMemory(), files.Options{})
	ref, err := source.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(some(t)))
	if err != nil {
		t.Fatal(err)
	}
	tree, frames := taken(t, source, ref.Digest)
	s, books := newMemory(), &markedKeys{}
	l := exchanging(t, s, files.Options{Marks: books})
	send := func() {
		if _, err := l.PutChunks(t.Context(), org, bytes.NewReader(framed(frames...))); err != nil {
			t.Fatal(err)
		}
	}
	send()
	books.keys = packsOf(s)
	if missing, err := l.MissingChunks(t.Context(), org, hashesOf(frames)); len(missing) != len(frames) || err != nil {
		t.Errorf("marked chunks count: %d of %d are missing, %v", len(missing), len(frames), err)
	}
	if _, err := l.CommitEntries(t.Context(), org, "", bytes.NewReader(tree)); codeOf(err) != stint.CodeChunksMissing {
		t.Errorf("a tree of marked chunks gave %v", err)
	}
	send()
	first, err := l.CommitEntries(t.Context(), org, "", bytes.NewReader(tree))
	if err != nil || first.Epoch != 3 {
		t.Fatalf("a tree of chunks that were sent again gave %+v, %v", first, err)
	}
	books.keys = packsOf(s)
	more := append(read(t, tree), &format.Entry{Path: "zz", Kind: format.Folder, Mode: 0o755})
	second, err := l.CommitEntries(t.Context(), org, first.Digest, bytes.NewReader(written(t, more)))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range books.keys {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if got := archiveLooks(t, readArchive(t, l, second.Digest)); len(got) != len(more) {
		t.Errorf("%d entries were committed, the tree has %d", len(more), len(got))
	}
}

// TestSelections reads single chunks. Their numbers count from the entry after
// Selection.After, so the test repeats this with each entry.
func TestSelections(t *testing.T) {
	t.Parallel()
	l := exchanging(t, newMemory(), files.Options{})
	ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(some(t)))
	if err != nil {
		t.Fatal(err)
	}
	tree, frames := taken(t, l, ref.Digest)
	skipped := int64(0)
	after := ""
	for _, e := range read(t, tree) {
		for n := skipped; n < int64(len(frames)); n++ {
			var out bytes.Buffer
			s := treewire.Selection{After: after, Ranges: []treewire.Range{{First: n - skipped, Count: 1}}}
			if err := l.WriteChunks(t.Context(), org, ref.Digest, s, &out); err != nil {
				t.Fatal(err)
			}
			if f, err := treewire.NewFrameReader(&out).Next(); err != nil || f.Hash != frames[n].Hash {
				t.Errorf("chunk %d after %q is %x, %v", n-skipped, after, f.Hash, err)
			}
		}
		after, skipped = e.Path, skipped+int64(len(e.Chunks))
	}
	beyond := treewire.Selection{Ranges: []treewire.Range{{First: 1, Count: int64(len(frames))}}}
	if err := l.WriteChunks(t.Context(), org, ref.Digest, beyond, io.Discard); codeOf(err) != stint.CodeInvalidParameter {
		t.Errorf("a selection beyond the end gave %v", err)
	}
}

// TestCutterMatchesLibrary compares the chunks of a Cutter with those of a
// commit.
func TestCutterMatchesLibrary(t *testing.T) {
	t.Parallel()
	l := exchanging(t, newMemory(), files.Options{})
	for _, size := range []int{0, 1, files.MaxSingleChunk - 1, files.MaxSingleChunk, files.MaxSingleChunk + 1, 2 << 20, 2<<20 + 1, 7 << 20} {
		body := noise(byte(size), size)
		ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(tarOf(t, item{name: "a", body: body})))
		if err != nil {
			t.Fatal(err)
		}
		tree, _ := taken(t, l, ref.Digest)
		var c files.Cutter
		c.Reset(iotestReader{bytes.NewReader(body)})
		got := []format.Chunk{}
		for {
			piece, err := c.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, format.Chunk{Hash: sha256.Sum256(piece), Size: uint32(len(piece))})
		}
		if d := cmp.Diff(read(t, tree)[0].Chunks, got); d != "" {
			t.Errorf("of %d bytes: %s", size, d)
		}
	}
}

// iotestReader returns at most 10,007 bytes at a time.
type iotestReader struct{ r io.Reader }

func (r iotestReader) Read(b []byte) (int, error) { return r.r.Read(b[:min(len(b), 10_007)]) }
