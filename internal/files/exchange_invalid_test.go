package files_test

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

func TestWrongChunksAreRefused(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := exchanging(t, s, files.Options{})
	frame := func(name, is string) treewire.Frame {
		var c files.Codec
		segment, err := c.Segment([]byte(is))
		if err != nil {
			t.Fatal(err)
		}
		return treewire.Frame{Hash: sha256.Sum256([]byte(name)), Raw: uint32(len(is)), Segment: bytes.Clone(segment)}
	}
	good, long := frame("good", "good"), frame("good", "good")
	long.Raw++
	for name, body := range map[string][]byte{
		"wrong hash":   framed(good, frame("good", "evil")),
		"wrong length": framed(long),
		"no segment":   framed(treewire.Frame{Hash: good.Hash, Raw: 4, Segment: []byte("no deflate")}),
		"cut short":    framed(good)[:60],
		"no frames":    []byte("something else"),
	} {
		if _, err := l.PutChunks(t.Context(), org, bytes.NewReader(body)); codeOf(err) != stint.CodeInvalidParameter {
			t.Errorf("%s: %v", name, err)
		}
	}
	if keys := s.keys(); len(keys) != 0 {
		t.Errorf("it stored %v", keys)
	}
}

// TestExchangeLimits sends a small request whose chunks are too large in total after
// decompression.
func TestExchangeLimits(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := exchanging(t, s, files.Options{})
	zeros := make([]byte, files.MaxChunk)
	var c files.Codec
	segment, err := c.Segment(zeros)
	if err != nil {
		t.Fatal(err)
	}
	frame := treewire.Frame{Hash: sha256.Sum256(zeros), Raw: files.MaxChunk, Segment: segment}
	_, err = l.PutChunks(t.Context(), org, bytes.NewReader(framed(slices.Repeat([]treewire.Frame{frame}, 129)...)))
	if codeOf(err) != stint.CodeRequestTooLarge || len(s.keys()) != 0 {
		t.Errorf("it gave %v and stored %v", err, s.keys())
	}
}

// TestSegmentsAreCompressedAgain sends a segment that has the right content but ends
// the DEFLATE stream. Stored unchanged, it would truncate archives.
func TestSegmentsAreCompressedAgain(t *testing.T) {
	t.Parallel()
	l := exchanging(t, newMemory(), files.Options{})
	hash := sha256.Sum256([]byte("hello"))
	final := append([]byte{1, 5, 0, 0xfa, 0xff}, "hello"...)
	if _, err := l.PutChunks(t.Context(), org, bytes.NewReader(framed(treewire.Frame{Hash: hash, Raw: 5, Segment: final}))); err != nil {
		t.Fatal(err)
	}
	e := &format.Entry{Path: "a", Kind: format.File, Mode: 0o644, Chunks: []format.Chunk{{Hash: hash, Size: 5}}}
	ref, err := l.CommitEntries(t.Context(), org, "", bytes.NewReader(written(t, []*format.Entry{e, {Path: "b", Kind: format.Folder, Mode: 0o755}})))
	if err != nil {
		t.Fatal(err)
	}
	if got := archiveLooks(t, readArchive(t, l, ref.Digest)); len(got) != 2 {
		t.Errorf("the archive contains %v", got)
	}
}

func TestWrongTreesAreRefused(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := exchanging(t, s, files.Options{Limits: files.Limits{Entries: 20, TotalBytes: 64 << 20}})
	ref, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(some(t)))
	if err != nil {
		t.Fatal(err)
	}
	tree, _ := taken(t, l, ref.Digest)
	stored := len(s.keys())
	large := func(all []*format.Entry) *format.Entry { return all[1] }
	for name, change := range map[string]func(all []*format.Entry) []*format.Entry{
		"wrong sum": func(all []*format.Entry) []*format.Entry {
			large(all).SHA256[3] ^= 1
			return all
		},
		"wrong length": func(all []*format.Entry) []*format.Entry {
			all[2].Chunks[0].Size++
			return all
		},
		"small chunks": func(all []*format.Entry) []*format.Entry {
			all[2].Chunks = append(all[2].Chunks, all[2].Chunks[0])
			return all
		},
		"link that leaves": func(all []*format.Entry) []*format.Entry {
			return append(all, &format.Entry{Path: "zz", Kind: format.Symlink, Target: "../x"})
		},
		"link over a link": func(all []*format.Entry) []*format.Entry {
			return append(all,
				&format.Entry{Path: "z/z", Kind: format.Folder}, &format.Entry{Path: "zz", Kind: format.Symlink, Target: "z/z"},
				&format.Entry{Path: "zzz", Kind: format.Symlink, Target: "zz/../../x"})
		},
		"long name": func(all []*format.Entry) []*format.Entry {
			return append(all, &format.Entry{Path: strings.Repeat("z", 256), Kind: format.Folder})
		},
		"twice": func(all []*format.Entry) []*format.Entry { return append(all, all[len(all)-1]) },
		"many": func(all []*format.Entry) []*format.Entry {
			for i := range 20 {
				all = append(all, &format.Entry{Path: "zz" + string(rune('a'+i)), Kind: format.Folder})
			}
			return all
		},
		"many bytes": func(all []*format.Entry) []*format.Entry {
			for i := range 13 {
				e := *large(all)
				e.Path = "zz" + string(rune('a'+i))
				all = append(all, &e)
			}
			return all
		},
	} {
		body := written(t, change(read(t, tree)))
		for _, parent := range []string{"", ref.Digest} {
			_, err := l.CommitEntries(t.Context(), org, parent, bytes.NewReader(body))
			code := codeOf(err)
			if name == "wrong length" && code == stint.CodeChunksMissing {
				continue // a chunk of that length does not exist
			}
			if code != stint.CodeInvalidParameter && code != stint.CodeRequestTooLarge {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := len(s.keys()); n != stored {
		t.Errorf("%d objects were stored", n-stored)
	}
}
