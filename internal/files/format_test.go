package files_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
)

// packs returns the IDs of all packs in s.
func packs(s *memory) (ids []string) {
	for _, key := range s.keys() {
		if id, ok := strings.CutPrefix(key, org+"/packs/"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestPackFooters checks that a pack's footer suffices to find, expand, and verify
// each segment of the pack.
func TestPackFooters(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	items := []item{{name: "large", body: noise(1, 18<<20)}, {name: "d/", mode: 0o755}, {name: "empty"}}
	for i := range 900 {
		items = append(items, item{name: fmt.Sprintf("d/%d", i), body: text(byte(i), 100+i)})
	}
	stored(t, l, "", items...)
	seen := map[[32]byte]int{}
	for _, id := range packs(s) {
		pack := s.objects[org+"/packs/"+id]
		segments, err := l.PackFooter(t.Context(), org, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range segments {
			seen[g.Hash]++
			b := pack[g.Offset:][:g.Stored]
			if g.Page {
				if sha256.Sum256(b) != g.Hash {
					t.Error("a page does not have its hash")
				}
				continue
			}
			plain, err := files.ExpandSegment(g, b)
			if err != nil || crc32.ChecksumIEEE(plain) != g.CRC {
				t.Errorf("a chunk at %d: %v", g.Offset, err)
			}
		}
	}
	for _, i := range items {
		if len(i.body) > 0 && len(i.body) < 1<<20 && seen[sha256.Sum256(i.body)] != 1 {
			t.Errorf("%s is stored %d times, want once", i.name, seen[sha256.Sum256(i.body)])
		}
	}
	if _, err := l.PackFooter(t.Context(), org, "none"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a pack that is not there: %v", err)
	}
}

func TestDamagedFooters(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	stored(t, l, "", item{name: "a", body: text(1, 3000)}, item{name: "b", body: noise(2, 300)})
	pack := s.objects[org+"/packs/"+packs(s)[0]]
	segments, err := files.DecodeFooter(pack)
	if err != nil || len(segments) != 3 {
		t.Fatalf("DecodeFooter = %d segments, %v", len(segments), err)
	}
	last := segments[2]
	for at := int(last.Offset + last.Stored); at < len(pack); at++ {
		damaged := bytes.Clone(pack)
		damaged[at] ^= 1
		if _, err := files.DecodeFooter(damaged); err == nil {
			t.Errorf("a footer that is damaged at %d was accepted", at)
		}
	}
	for n := range pack {
		if _, err := files.DecodeFooter(pack[:n]); err == nil {
			t.Errorf("a pack of %d bytes was accepted", n)
		}
	}
	if _, err := files.DecodeFooter(append([]byte{0}, pack...)); err == nil {
		t.Error("segments that leave room were accepted")
	}
}

// TestSoakPagesAreShared checks that a tree of many pages shares all but at most
// three pages with its parent after entries were changed, added, or removed.
func TestSoakPagesAreShared(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	var items []item
	for i := range 5000 {
		items = append(items, item{name: fmt.Sprintf("d%02d/some-file-%05d", i/125, i), body: []byte{byte(i), byte(i >> 8)}})
	}
	first := stored(t, l, "", items...)
	pages := func(digest string) []files.Page {
		t.Helper()
		p, err := l.Pages(t.Context(), org, digest)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := pages(first.Digest)
	if len(before) < 5 || len(before) > 50 {
		t.Fatalf("there are %d pages", len(before))
	}
	for name, other := range map[string][]item{
		"changed": append(slices.Clone(items[1:]), item{name: items[0].name, body: []byte("changed")}),
		"added":   append(slices.Clone(items), item{name: "d17/a", body: []byte("added")}),
		"removed": append(slices.Clone(items[:2250]), items[2251:]...),
		"fewer":   slices.Clone(items[:3000]),
	} {
		version := stored(t, l, first.Digest, other...)
		if alone := stored(t, newLibrary(t, newMemory(), files.Options{}), "", other...); alone != version {
			t.Errorf("%s: without its parent it is %+v, with it %+v", name, alone, version)
		}
		fresh := 0
		for _, p := range pages(version.Digest) {
			if !slices.Contains(before, p) {
				fresh++
			}
		}
		if fresh < 1 || fresh > 3 {
			t.Errorf("%s: %d of some %d pages are new", name, fresh, len(before))
		}
	}
}

// FuzzRoot decodes arbitrary bytes as a root. If they are accepted, decoding the
// encoded root and encoding it again must return the same bytes.
func FuzzRoot(f *testing.F) {
	s := newMemory()
	l := newLibrary(f, s, files.Options{})
	for _, items := range [][]item{{}, {{name: "a", body: []byte("b")}, {name: "l", target: "a"}}} {
		body, err := files.RootBody(s.objects[org+"/manifests/"+stored(f, l, "", items...).Digest])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		once, err := files.Reencoded(body)
		if err != nil {
			return
		}
		twice, err := files.Reencoded(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%x reads as %x, that as %x, %v", body, once, twice, err)
		}
	})
}

// FuzzPage decodes arbitrary bytes as a page. If they are accepted, decoding the
// encoded page and encoding it again must return the same bytes.
func FuzzPage(f *testing.F) {
	f.Add([]byte{0, 2, 1, 'd', 0, 0, 0})
	f.Add(append([]byte{1, 1, 'p', 1, 1, 'f', 1, 2, 0, 3}, make([]byte, 90)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := files.DecodePage(b)
		if err != nil {
			return
		}
		twice, err := files.DecodePage(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%x reads as %x, that as %x, %v", b, once, twice, err)
		}
	})
}

// FuzzFooter decodes the footer of arbitrary bytes as a pack. Each returned segment
// must be inside the pack.
func FuzzFooter(f *testing.F) {
	s := newMemory()
	l := newLibrary(f, s, files.Options{})
	stored(f, l, "", item{name: "a", body: []byte("content")})
	f.Add(s.objects[org+"/packs/"+packs(s)[0]])
	f.Fuzz(func(t *testing.T, pack []byte) {
		segments, err := files.DecodeFooter(pack)
		for _, g := range segments {
			if err != nil || int(g.Offset)+int(g.Stored) > len(pack) {
				t.Errorf("%+v does not lie in %d bytes, %v", g, len(pack), err)
			}
		}
	})
}
