package files_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/files"
)

// named returns the trees and their names in the order of the names.
func named(trees map[string]files.Ref) iter.Seq2[files.NamedTree, error] {
	return func(yield func(files.NamedTree, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(trees)) {
			if !yield(files.NamedTree{Name: name, Digest: trees[name].Digest}, nil) {
				return
			}
		}
	}
}

func checked(t *testing.T, l *files.Library, trees map[string]files.Ref, o files.CheckOptions) files.CheckResult {
	t.Helper()
	o.Read = true
	c, err := l.Check(t.Context(), org, named(trees), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// segmentOf returns the segment of the chunk with the content body, and the key of
// the pack that contains the segment.
func segmentOf(t *testing.T, l *files.Library, body []byte) (pack string, s files.Segment) {
	t.Helper()
	for key, all := range l.AllSegments(t.Context(), org) {
		for _, s := range all {
			if plain, err := l.ReadSegment(t.Context(), key, s); err == nil && bytes.Equal(plain, body) {
				return key, s
			}
		}
	}
	t.Fatal("no pack contains the chunk")
	return "", s
}

func TestCheckValidTrees(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	trees := map[string]files.Ref{"one": stored(t, l, "", item{name: "a", body: text(1, 3000)})}
	trees["two"] = stored(t, l, trees["one"].Digest, item{name: "a", body: text(1, 3000)}, item{name: "b", body: text(2, 9)})
	stored(t, l, "", item{name: "orphan", body: text(3, 3000)})
	got := checked(t, l, trees, files.CheckOptions{})
	want := files.CheckResult{Trees: 2, Pages: 2, Packs: 2, Segments: 4, Bytes: got.Bytes, Orphans: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

// TestRepair damages or deletes one object and repairs the store, with and
// without another copy of the lost content.
func TestRepair(t *testing.T) {
	t.Parallel()
	body, other := text(1, 3000), text(2, 3000)
	items := []item{{name: "d/", mode: 0o755}, {name: "d/a", body: body}, {name: "d/b", body: other}}
	use := []files.Use{{Name: "old", Path: "d/a"}}
	all := []files.Use{{Name: "old", Path: "d", Following: true}}
	for name, k := range map[string]struct {
		hurt   func(s *memory, pack, root string, a files.Segment)
		copied bool // another tree contains the content of d/a
		what   string
		root   bool // the root is damaged
		used   []files.Use
		repair bool
	}{
		"a chunk":         {hurt: flipChunk, what: "damaged", used: use},
		"a chunk, copied": {hurt: flipChunk, copied: true, what: "damaged", used: use, repair: true},
		"a footer":        {hurt: flipEnd, what: "damaged", repair: true},
		"a cut pack":      {hurt: cutPack, what: "damaged", used: all},
		"no pack":         {hurt: func(s *memory, pack, _ string, _ files.Segment) { delete(s.objects, pack) }, what: "missing", used: all},
		"a root":          {hurt: func(s *memory, _, root string, _ files.Segment) { flip(s, root, 50) }, root: true, what: "damaged", used: []files.Use{{Name: "old"}}},
		"no root":         {hurt: func(s *memory, _, root string, _ files.Segment) { delete(s.objects, root) }, root: true, what: "missing", used: []files.Use{{Name: "old"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newMemory()
			x := newIndex(t)
			plain := newLibrary(t, s, files.Options{})
			l := newLibrary(t, s, files.Options{Index: x})
			trees := map[string]files.Ref{"old": stored(t, l, "", items...)}
			pack, a := segmentOf(t, l, body)
			if k.copied {
				trees["young"] = stored(t, plain, "", item{name: "copy", body: body})
			}
			root := org + "/manifests/" + trees["old"].Digest
			k.hurt(s, pack, root, a)
			got := checked(t, l, trees, files.CheckOptions{})
			key := pack
			if k.root {
				key = root
			}
			if got.Damaged != 1 || got.Repaired != 0 || len(got.Damages) != 1 {
				t.Fatalf("Check = %+v, want one damage", got)
			}
			d := got.Damages[0]
			if d.Key != key || d.Problem != k.what || d.Uses != int64(len(k.used)) || !cmp.Equal(k.used, d.Used) {
				t.Errorf("the damage is %+v", d)
			}
			if !k.root && x.Has(org, strings.TrimPrefix(pack, org+"/packs/")) {
				t.Error("the pack is still in the index")
			}
			got = checked(t, l, trees, files.CheckOptions{Repair: true})
			if got.Damaged != 1 || got.Repaired == 1 != k.repair {
				t.Fatalf("Repair = %+v", got)
			}
			if k.repair {
				isSound(t, l, trees, items)
			}
		})
	}
}

func isSound(t *testing.T, l *files.Library, trees map[string]files.Ref, items []item) {
	t.Helper()
	if got := checked(t, l, trees, files.CheckOptions{}); got.Damaged != 0 {
		t.Errorf("after the repair Check = %+v", got)
	}
	if diff := cmp.Diff(itemLooks(items), archiveLooks(t, readArchive(t, l, trees["old"].Digest))); diff != "" {
		t.Errorf("after the repair (-want +got):\n%s", diff)
	}
}

func flip(s *memory, key string, at int) {
	s.objects[key] = bytes.Clone(s.objects[key])
	s.objects[key][at] ^= 4
}

func flipChunk(s *memory, pack, _ string, a files.Segment) { flip(s, pack, int(a.Offset)+20) }

func flipEnd(s *memory, pack, _ string, _ files.Segment) {
	flip(s, pack, len(s.objects[pack])-60)
}

func cutPack(s *memory, pack, _ string, _ files.Segment) { s.objects[pack] = s.objects[pack][:5] }

// TestRepairFromNewCopy damages two chunks of a pack. The pack can be repaired as
// soon as another tree stores the files again.
func TestRepairFromNewCopy(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{Index: newIndex(t)})
	var items []item
	for i := range 30 {
		items = append(items, item{name: fmt.Sprint("f", i), body: text(byte(i), 2000+i)})
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	trees := map[string]files.Ref{"old": stored(t, l, "", items...)}
	pack, first := segmentOf(t, l, items[0].body)
	flip(s, pack, int(first.Offset)+20)
	_, second := segmentOf(t, l, items[1].body)
	flip(s, pack, int(second.Offset)+20)
	got := checked(t, l, trees, files.CheckOptions{Repair: true})
	if len(got.Damages) != 1 || got.Repaired != 0 || got.Damages[0].Segments != 2 || got.Damages[0].Uses != 2 {
		t.Fatalf("Check = %+v", got)
	}
	trees["young"] = stored(t, l, "", append(slices.Clone(items), item{name: "new", body: []byte("new")})...)
	if got = checked(t, l, trees, files.CheckOptions{Repair: true}); got.Damaged != 1 || got.Repaired != 1 {
		t.Fatalf("Repair = %+v", got)
	}
	isSound(t, l, trees, items)
}
