package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/index"
)

func newIndex(t testing.TB) *index.Index {
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
	return x
}

// fromBody returns a function for each kind of commit, by its name. The functions store a
// tree with one file, without a parent.
func fromBody(t testing.TB, name string, body []byte) map[string]func(*files.Library) (files.Ref, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{name: string(body)})
	return map[string]func(*files.Library) (files.Ref, error){
		"CommitArchive": func(l *files.Library) (files.Ref, error) {
			return l.CommitArchive(t.Context(), org, "", files.Tar, bytes.NewReader(tarOf(t, item{name: name, body: body})))
		},
		"CommitDir": func(l *files.Library) (files.Ref, error) {
			return l.CommitDir(t.Context(), org, "", dir, files.DirOptions{})
		},
		"CommitOverlay": func(l *files.Library) (files.Ref, error) {
			return l.CommitOverlay(t.Context(), org, "", dir, files.DirOptions{})
		},
	}
}

// TestIndexFindsChunksOfOtherTrees stores a file with the content of a file in another tree.
// The chunk index finds the chunks, so they are not stored again.
func TestIndexFindsChunksOfOtherTrees(t *testing.T) {
	t.Parallel()
	body := noise(1, 3<<20)
	for name, way := range fromBody(t, "copy", body) {
		for _, synced := range []bool{false, true} {
			s, x := newMemory(), newIndex(t)
			l := newLibrary(t, s, files.Options{Index: x})
			stored(t, l, "", item{name: "a", body: body})
			if synced { // into an empty index
				x = newIndex(t)
				l = newLibrary(t, s, files.Options{Index: x, Now: inTwoDays})
				if err := l.SyncIndex(t.Context(), org); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(packs(s), slices.Collect(x.Packs(org))); diff != "" {
				t.Errorf("the index has the packs (-want +got):\n%s", diff)
			}
			before := s.bytes()
			ref, err := way(l)
			if err != nil {
				t.Fatal(err)
			}
			if grown := s.bytes() - before; grown > 2000 {
				t.Errorf("%s: the store grows by %d bytes", name, grown)
			}
			if seen := archiveLooks(t, readArchive(t, l, ref.Digest)); seen["copy"].Sum != lookOf("file", 0, someTime, "", body).Sum {
				t.Errorf("%s: the archive shows %+v", name, seen)
			}
		}
	}
}

// TestIndexWithDeletedPack checks that a deleted pack is detected before a
// manifest refers to it.
func TestIndexWithDeletedPack(t *testing.T) {
	t.Parallel()
	body := noise(1, 3000)
	for name, way := range fromBody(t, "copy", body) {
		s := newMemory()
		l := newLibrary(t, s, files.Options{Index: newIndex(t)})
		stored(t, l, "", item{name: "a", body: body})
		for _, key := range s.keys() {
			if err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		ref, err := way(l)
		if name == "CommitArchive" { // an archive cannot be read again, so the caller must retry
			if stint.KindOf(err) != stint.KindUnavailable || len(s.keys()) > 0 {
				t.Errorf("%s = %+v, %v, and the store contains %q", name, ref, err, s.keys())
			}
			ref, err = way(l)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if seen := archiveLooks(t, readArchive(t, l, ref.Digest)); seen["copy"].Sum != lookOf("file", 0, someTime, "", body).Sum {
			t.Errorf("%s: the archive shows %+v", name, seen)
		}
	}
}

// inTwoDays returns the time in two days. At that time, the library considers all commits
// of the test as ended.
func inTwoDays() time.Time { return time.Now().Add(48 * time.Hour) }

func TestSyncIndex(t *testing.T) {
	t.Parallel()
	s, x := newMemory(), newIndex(t)
	other := newLibrary(t, s, files.Options{})
	for i := range 5 {
		stored(t, other, "", item{name: "f", body: noise(byte(i), 3000)})
	}
	all := packs(s)
	if err := newLibrary(t, s, files.Options{Index: x}).SyncIndex(t.Context(), org); err != nil || len(slices.Collect(x.Packs(org))) > 0 {
		t.Errorf("the index has packs that a commit may delete again: %v", err)
	}
	l := newLibrary(t, s, files.Options{Index: x, Now: inTwoDays})
	broken := org + "/packs/" + all[2]
	whole := s.objects[broken]
	s.objects[broken] = whole[:len(whole)-1]
	if err := l.SyncIndex(t.Context(), org); err == nil || !strings.Contains(err.Error(), all[2]) {
		t.Errorf("with a damaged pack Sync = %v", err)
	}
	want := slices.Delete(slices.Clone(all), 2, 3)
	if diff := cmp.Diff(want, slices.Collect(x.Packs(org))); diff != "" {
		t.Errorf("the index has the packs (-want +got):\n%s", diff)
	}
	s.objects[broken] = whole
	for _, id := range []string{all[0], all[4]} {
		if err := s.Delete(t.Context(), org+"/packs/"+id); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := l.SyncIndex(t.Context(), org); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(all[1:4], slices.Collect(x.Packs(org))); diff != "" {
			t.Errorf("the index has the packs (-want +got):\n%s", diff)
		}
	}
	if err := other.SyncIndex(t.Context(), org); err != nil {
		t.Errorf("without an index: %v", err)
	}
}

// collection is a fake garbage collection that has marked keys for deletion.
type collection struct {
	epoch int64
	keys  []string
	err   error
}

func (c *collection) Marked(_ context.Context, o string) (int64, []string, error) {
	if o != org {
		return 0, nil, fmt.Errorf("asked about %q", o)
	}
	return c.epoch, c.keys, c.err
}

// sweep deletes the marked objects.
func (c *collection) sweep(t testing.TB, s *memory) {
	t.Helper()
	for _, key := range c.keys {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSoakCommitsAvoidMarkedObjects commits a version of a tree while all or some packs of
// its parent are marked, and then deletes the marked objects. The version must be complete.
func TestSoakCommitsAvoidMarkedObjects(t *testing.T) {
	t.Parallel()
	first := []item{{name: "a", body: noise(1, 3000)}, {name: "b/", mode: 0o755}, {name: "b/large", body: noise(2, 3<<20)}, {name: "c", body: noise(3, 3000)}, {name: "copy-of-a", body: noise(1, 3000)}}
	for i := range 1300 { // enough entries for several pages
		first = append(first, item{name: fmt.Sprintf("d-%s-%d", strings.Repeat("n", 220), i)})
	}
	then := append(slices.Clone(first), item{name: "e", body: noise(4, 3000)})
	changed := append(slices.Clone(then), item{name: "f", body: []byte("new")})
	changed[2].body = append(noise(2, 3<<20), "more"...)
	whole := newLibrary(t, newMemory(), files.Options{})
	dir, upper := t.TempDir(), t.TempDir()
	want := stored(t, whole, "", changed...)
	if err := whole.Checkout(t.Context(), org, want.Digest, dir); err != nil {
		t.Fatal(err)
	}
	if err := whole.Checkout(t.Context(), org, stored(t, whole, "", changed[1], changed[2], changed[len(changed)-1]).Digest, upper); err != nil {
		t.Fatal(err)
	}
	for name, way := range map[string]func(*files.Library, string) (files.Ref, error){
		"CommitArchive": func(l *files.Library, parent string) (files.Ref, error) {
			return l.CommitArchive(t.Context(), org, parent, files.Tar, bytes.NewReader(tarOf(t, changed...)))
		},
		"CommitDir": func(l *files.Library, parent string) (files.Ref, error) {
			return l.CommitDir(t.Context(), org, parent, dir, files.DirOptions{})
		},
		"CommitOverlay": func(l *files.Library, parent string) (files.Ref, error) {
			return l.CommitOverlay(t.Context(), org, parent, upper, files.DirOptions{})
		},
	} {
		for _, all := range []bool{true, false} {
			if !all && name != "CommitOverlay" {
				continue // CommitArchive and CommitDir store all marked chunks again
			}
			s, c := newMemory(), &collection{epoch: 7}
			l := newLibrary(t, s, files.Options{Marks: c, Index: newIndex(t)})
			old := stored(t, l, "", first...)
			c.keys = append(c.keys, s.keys()...)
			parent := stored(t, l, old.Digest, then...)
			c.keys = slices.DeleteFunc(s.keys(), func(key string) bool {
				return !all && !slices.Contains(packKeysOf(t, l, old), key)
			})
			ref, err := way(l, parent.Digest)
			if err != nil {
				t.Fatal(err)
			}
			if ref.Digest != want.Digest || ref.Epoch != 7 {
				t.Errorf("%s = %+v, want %+v in epoch 7", name, ref, want)
			}
			c.sweep(t, s)
			if diff := cmp.Diff(itemLooks(changed), archiveLooks(t, readArchive(t, l, ref.Digest))); diff != "" {
				t.Errorf("%s: after the deletion the archive shows (-want +got):\n%s", name, diff)
			}
		}
	}
}

// packKeysOf returns the keys of the packs of a tree.
func packKeysOf(t testing.TB, l *files.Library, ref files.Ref) []string {
	t.Helper()
	ids, err := l.PacksOf(t.Context(), org, ref.Digest)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ids {
		ids[i] = org + "/packs/" + ids[i]
	}
	return ids
}

func TestRenew(t *testing.T) {
	t.Parallel()
	broken := errors.New("the books are closed")
	s, c := newMemory(), &collection{epoch: 3}
	l := newLibrary(t, s, files.Options{Marks: c})
	ref := stored(t, l, "", item{name: "a", body: noise(1, 3000)})
	other := stored(t, l, "", item{name: "b", body: noise(2, 3000)})
	pack := packKeysOf(t, l, ref)[0]
	root := org + "/manifests/" + ref.Digest
	whole := maps.Clone(s.objects)
	for name, k := range map[string]struct {
		keys []string
		gone string
		err  error
		want error
	}{
		"renewed":                  {},
		"others are marked":        {keys: append(packKeysOf(t, l, other), org+"/manifests/"+other.Digest)},
		"its root is marked":       {keys: []string{root}},
		"both are marked":          {keys: []string{root, pack}, want: files.ErrStale},
		"its pack is marked":       {keys: []string{pack}, want: files.ErrStale},
		"its root is gone":         {gone: root, want: files.ErrStale},
		"its pack is gone":         {gone: pack, want: files.ErrStale},
		"the marks cannot be read": {err: broken, want: broken},
	} {
		s.objects = maps.Clone(whole)
		delete(s.objects, k.gone)
		*c = collection{epoch: 9, keys: k.keys, err: k.err}
		got, err := l.Renew(t.Context(), org, ref)
		renewed := ref
		renewed.Epoch = 9
		if !errors.Is(err, k.want) || err == nil && got != renewed {
			t.Errorf("%s: Renew = %+v, %v, want %v", name, got, err, k.want)
		}
	}
	c.err = broken
	if _, err := l.CommitDir(t.Context(), org, "", t.TempDir(), files.DirOptions{}); !errors.Is(err, broken) {
		t.Errorf("a commit without the books: %v", err)
	}
}
