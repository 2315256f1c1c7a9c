package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/files"
)

func TestSoakCommitCostFollowsChange(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	big := noise(1, 12<<20)
	var items []item
	for i := range 200 {
		items = append(items, item{name: fmt.Sprintf("f%03d", i), body: noise(byte(i), 20_000)})
	}
	first := stored(t, l, "", append(items, item{name: "big", body: big})...)
	for _, c := range []struct {
		name  string
		items []item
		most  int // maximum growth of the store in bytes
	}{
		{"one small file", append(slices.Clone(items[1:]), item{name: "big", body: big}, item{name: "f000", body: noise(250, 20_000)}), 60_000},
		{"an insertion", append(slices.Clone(items), item{name: "big", body: slices.Concat(big[:5<<20], []byte("inserted"), big[5<<20:])}), 4_300_000},
		{"a renaming", append(slices.Clone(items), item{name: "renamed", body: big}), 40_000},
		{"a copy", append(slices.Clone(items), item{name: "big", body: big}, item{name: "copy", body: big}), 40_000},
		{"a touch", append(slices.Clone(items), item{name: "big", body: big, mode: 0o600}), 40_000},
		{"nothing", append(slices.Clone(items), item{name: "big", body: big}), 0},
	} {
		before, keys := s.bytes(), s.keys()
		ref := stored(t, l, first.Digest, c.items...)
		grown := s.bytes() - before
		if grown > c.most {
			t.Errorf("%s: the store grows by %d bytes, want at most %d", c.name, grown, c.most)
		}
		if c.most == 0 && (ref != first || !slices.Equal(keys, s.keys())) {
			t.Errorf("%s: the store contains %q, want %q", c.name, s.keys(), keys)
		}
		if diff := cmp.Diff(itemLooks(c.items), archiveLooks(t, readArchive(t, l, ref.Digest))); diff != "" {
			t.Errorf("%s: the archive (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestChainOfVersions adds one file in each of 30 versions, so the chunks of the last
// version are in the packs of many versions.
func TestChainOfVersions(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	var items []item
	parent := ""
	for i := range 30 {
		items = append(items, item{name: fmt.Sprintf("f%d", i*7%30), body: noise(byte(i), 3000)})
		parent = stored(t, l, parent, items...).Digest
	}
	dir := t.TempDir()
	if err := l.Checkout(t.Context(), org, parent, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(itemLooks(items), folderLooks(t, dir)); diff != "" {
		t.Errorf("the checkout (-want +got):\n%s", diff)
	}
}

func TestManyPacks(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	items := []item{{name: "a", body: noise(1, 15<<20)}, {name: "b", body: noise(2, 300_000)}, {name: "c", body: noise(3, 3<<20)}}
	ref := stored(t, l, "", items...)
	packs := 0
	for _, key := range s.keys() {
		if strings.HasPrefix(key, org+"/packs/") {
			packs++
			if n := len(s.objects[key]); n > files.MaxPack {
				t.Errorf("%s has %d bytes", key, n)
			}
		}
	}
	if packs != 2 {
		t.Errorf("there are %d packs, want 2", packs)
	}
	checkEverywhere(t, l, ref, itemLooks(items))
}

// TestSameTreeSameDigest stores a tree with and without a parent, and with its entries in
// another order. The digest must be the same. Trees that differ in one property must have
// other digests.
func TestSameTreeSameDigest(t *testing.T) {
	t.Parallel()
	items := []item{{name: "d/", mode: 0o755}, {name: "d/f", body: text(1, 3<<20)}, {name: "g", body: noise(2, 100)}}
	first := stored(t, newLibrary(t, newMemory(), files.Options{}), "", items...)
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	parent := stored(t, l, "", items[:2]...)
	keys := len(s.keys())
	for _, p := range []string{parent.Digest, ""} {
		reversed := slices.Clone(items)
		slices.Reverse(reversed)
		if ref := stored(t, l, p, reversed...); ref != first {
			t.Errorf("stored after %q it is %+v, want %+v", p, ref, first)
		}
	}
	if got := len(s.keys()); got != keys+2 {
		t.Errorf("the store grew from %d to %d objects, want a pack and a manifest more", keys, got)
	}
	for change, other := range map[string][]item{
		"content": {items[0], items[1], {name: "g", body: noise(3, 100)}},
		"mode":    {items[0], items[1], {name: "g", body: noise(2, 100), mode: 0o600}},
		"time":    {items[0], items[1], {name: "g", body: noise(2, 100), mtime: someTime.Add(1)}},
		"name":    {items[0], items[1], {name: "h", body: noise(2, 100)}},
		"folder":  {{name: "d/", mode: 0o700}, items[1], items[2]},
		"kind":    {items[0], items[1], {name: "g", target: "d"}},
	} {
		if ref := stored(t, l, "", other...); ref.Digest == first.Digest {
			t.Errorf("another %s has the same digest", change)
		}
	}
}

var errBroken = errors.New("the store is broken")

// TestSoakCrashLeavesNoIncompleteSnapshot fails each put in turn. Packs are
// stored before the manifest, and a failed commit deletes the objects it
// stored.
func TestSoakCrashLeavesNoIncompleteSnapshot(t *testing.T) {
	t.Parallel()
	items := []item{{name: "a", body: noise(1, 10<<20)}, {name: "b", body: noise(2, 8<<20)}}
	archive := tarOf(t, items...)
	dir := t.TempDir()
	whole := newLibrary(t, newMemory(), files.Options{})
	if err := whole.Checkout(t.Context(), org, stored(t, whole, "", items...).Digest, dir); err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(*files.Library) (files.Ref, error){
		"CommitArchive": func(l *files.Library) (files.Ref, error) {
			return l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(archive))
		},
		"CommitDir": func(l *files.Library) (files.Ref, error) {
			return l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
		},
	}
	for name, way := range ways {
		for n := range 3 { // two packs and a manifest
			s := newMemory()
			var mu sync.Mutex
			puts := 0
			s.before = func(key string) error {
				mu.Lock()
				defer mu.Unlock()
				if puts++; puts == n+1 {
					if strings.Contains(key, "/manifests/") != (n == 2) {
						t.Errorf("%s: put %d is of %s", name, n, key)
					}
					return errBroken
				}
				return nil
			}
			l := newLibrary(t, s, files.Options{})
			if _, err := way(l); !errors.Is(err, errBroken) {
				t.Errorf("%s, put %d fails: %v", name, n, err)
			}
			if keys := s.keys(); len(keys) > 0 {
				t.Errorf("%s, put %d fails: the store contains %q", name, n, keys)
			}
			if _, err := way(l); err != nil {
				t.Errorf("%s, tried again after put %d failed: %v", name, n, err)
			}
			if last := s.puts[len(s.puts)-1]; !strings.Contains(last, "/manifests/") {
				t.Errorf("%s: the last put is of %s", name, last)
			}
		}
	}
}

// lossy is a store that stores a manifest but returns an error, as if the response of the
// server was lost.
type lossy struct{ *memory }

func (s lossy) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := s.memory.Put(ctx, key, r, size); err != nil || !strings.Contains(key, "/manifests/") {
		return err
	}
	return errBroken
}

// TestLostResponseKeepsPacks checks that packs are kept if the manifest that
// refers to them exists, although storing it returned an error.
func TestLostResponseKeepsPacks(t *testing.T) {
	t.Parallel()
	s := lossy{newMemory()}
	l := newLibrary(t, s, files.Options{})
	items := []item{{name: "a", body: noise(1, 1000)}}
	if _, err := l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(tarOf(t, items...))); !errors.Is(err, errBroken) {
		t.Errorf("CommitArchive = %v", err)
	}
	ref := stored(t, l, "", items...)
	checkEverywhere(t, l, ref, itemLooks(items))
}

// TestConcurrentCommitsOfOneTree checks that concurrent commits of one tree leave only one
// manifest and one pack.
func TestConcurrentCommitsOfOneTree(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	items := []item{{name: "a", body: noise(1, 100_000)}}
	archive := tarOf(t, items...)
	refs := make([]files.Ref, 8)
	var all sync.WaitGroup
	for i := range refs {
		all.Go(func() {
			var err error
			if refs[i], err = l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(archive)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if keys := s.keys(); len(keys) != 2 {
		t.Errorf("the store contains %q, want a manifest and a pack", keys)
	}
	for _, ref := range refs {
		if ref != refs[0] {
			t.Errorf("the references are %+v", refs)
		}
	}
	checkEverywhere(t, l, refs[0], itemLooks(items))
}

func TestChunksAreBoundedAndCoverAll(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{noise(1, 20<<20), text(2, 9<<20), make([]byte, 5<<20+1)} {
		total := 0
		for total < len(b) {
			n := files.Cut(b[total:])
			if n < 1 || n > files.MaxChunk || n < files.MinChunk && total+n < len(b) {
				t.Fatalf("a chunk of %d bytes at %d of %d", n, total, len(b))
			}
			total += n
		}
	}
}
