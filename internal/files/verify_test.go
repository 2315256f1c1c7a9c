package files_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/blob/sealed"
	"github.com/stint-dev/stint/internal/files"
)

// contains reports whether any object contains piece.
func (m *memory) contains(piece []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.objects {
		if bytes.Contains(b, piece) {
			return true
		}
	}
	return false
}

// twoStores returns a library with two stores: open, and secret for confidential
// objects.
func twoStores(t *testing.T, names *names) (l *files.Library, open, secret *memory) {
	open, secret = newMemory(), newMemory()
	return newLibrary(t, sealed.Mixed{Primary: open, Secondary: secret, Unique: files.IsUniqueKey}, files.Options{
		Index: newMemoryIndex(), Marks: garbage{names},
		SealedStore: sealed.Mixed{Primary: secret, Secondary: open, Unique: files.IsUniqueKey},
	}), open, secret
}

func fromDir(t *testing.T, l *files.Library, parent string, content map[string]string, o files.DirOptions) files.Ref {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, content)
	ref, err := l.CommitDir(t.Context(), org, parent, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestConfidentialTreesAreSealed(t *testing.T) {
	t.Parallel()
	names := newNames()
	l, open, secret := twoStores(t, names)
	collect := func() {
		t.Helper()
		if _, err := l.Collect(t.Context(), org, names, files.CollectOptions{Compact: 100, Now: func() time.Time { return time.Now().Add(time.Hour) }}); err != nil {
			t.Fatal(err)
		}
	}
	known, mine, gone := string(noise(1, 50_000)), string(noise(2, 50_000)), string(noise(3, 50_000))
	fromDir(t, l, "", map[string]string{"known": known}, files.DirOptions{})
	before := open.keys()
	first := fromDir(t, l, "", map[string]string{"known": known, "mine": mine, "gone": gone}, files.DirOptions{Confidential: true, Verify: true})
	if diff := cmp.Diff(before, open.keys()); diff != "" {
		t.Errorf("the open store (-before +after):\n%s", diff)
	}
	if piece := []byte(known[20_000:20_032]); !open.contains(piece) || secret.contains(piece) {
		t.Error("what is known in the open store was not taken from there")
	}
	// A tree that is not confidential is stored in the open store. Its content
	// stays in the secret store.
	other := fromDir(t, l, "", map[string]string{"mine": mine}, files.DirOptions{})
	if len(open.keys()) == len(before) {
		t.Error("a tree that is not confidential was not stored in the open store")
	}
	// Collections compact a pack of the secret store within that store.
	second := fromDir(t, l, first.Digest, map[string]string{"mine": mine}, files.DirOptions{Confidential: true})
	for _, ref := range []files.Ref{other, second} {
		if err := names.name(ref); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		collect()
	}
	if secret.contains([]byte(gone[20_000:20_032])) {
		t.Error("what nothing names is still there")
	}
	if !slices.ContainsFunc(secret.keys(), func(k string) bool { return strings.Contains(k, "/packs/") && strings.HasSuffix(k, ".1") }) {
		t.Errorf("no pack was compacted: %q", secret.keys())
	}
	if open.contains([]byte(mine[20_000:20_032])) {
		t.Error("the open store contains confidential content")
	}
	for _, ref := range []files.Ref{other, second} {
		if b := readFile(t, l, ref.Digest, "mine"); b != mine {
			t.Errorf("%d bytes were read back of %s", len(b), ref.Digest)
		}
	}
}

func readFile(t *testing.T, l *files.Library, digest, name string) string {
	t.Helper()
	f, _, err := l.Open(t.Context(), org, digest, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// damaging is a store that damages packs and roots when they are put. Its fields are
// the numbers of packs and roots that it still damages.
type damaging struct {
	*memory
	packs, roots int
}

func (r *damaging) Put(ctx context.Context, key string, in io.Reader, size int64) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	for kind, left := range map[string]*int{"/packs/": &r.packs, "/manifests/": &r.roots} {
		if strings.Contains(key, kind) && *left > 0 {
			*left--
			b[len(b)/3] ^= 1
		}
	}
	return r.memory.Put(ctx, key, bytes.NewReader(b), size)
}

func TestUnreadableContentIsStoredAgain(t *testing.T) {
	t.Parallel()
	body := string(noise(4, 200_000))
	for name, tt := range map[string]struct {
		packs, roots int
		heals        bool
	}{"once": {1, 0, true}, "always": {1000, 0, false}, "the root": {0, 1, true}} {
		s := &damaging{memory: newMemory(), packs: tt.packs, roots: tt.roots}
		l := newLibrary(t, s, files.Options{Index: newMemoryIndex()})
		dir := t.TempDir()
		write(t, dir, map[string]string{"f": body})
		ref, err := l.CommitDir(t.Context(), org, "", dir, files.DirOptions{Verify: true})
		switch {
		case (err == nil) != tt.heals:
			t.Errorf("%s: %v", name, err)
		case tt.heals:
			if readFile(t, l, ref.Digest, "f") != body {
				t.Errorf("%s: another file was read back", name)
			}
		case len(s.keys()) > 0:
			t.Errorf("%s: left behind %q", name, s.keys())
		}
	}
}

// TestDamagedParentIsNotReused checks that unchanged content is stored again if the
// chunks that the parent tree refers to are damaged.
func TestDamagedParentIsNotReused(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{Index: newMemoryIndex()})
	content := map[string]string{"old": string(noise(5, 100_000))}
	parent := fromDir(t, l, "", content, files.DirOptions{Verify: true})
	for key, b := range s.objects {
		if strings.Contains(key, "/packs/") {
			b[40_000] ^= 1
		}
	}
	content["new"] = "new"
	ref := fromDir(t, l, parent.Digest, content, files.DirOptions{Verify: true})
	if readFile(t, l, ref.Digest, "old") != content["old"] {
		t.Error("another file was read back")
	}
}

func TestKeepParents(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/b/keep/f": "1", "a/other": "2", "c/d/e": "3", "z": "4"})
	keep := func(p string) bool { return strings.HasPrefix(p, "a/b/keep") }
	o := files.DirOptions{
		Ignore:      func(p string, isDir bool) bool { return !isDir && !keep(p) },
		KeepParents: func(p string) bool { return !keep(p) },
	}
	ref, err := l.CommitDir(t.Context(), org, "", dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "a/b", "a/b/keep", "a/b/keep/f"}, paths(t, l, ref.Digest)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
	// Other changes in the parents of the kept folder do not change the tree.
	write(t, dir, map[string]string{"a/b/more": "5"})
	if err := os.Chmod(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if again, err := l.CommitDir(t.Context(), org, "", dir, o); err != nil || again.Digest != ref.Digest {
		t.Errorf("the tree is %s, then %s, %v", ref.Digest, again.Digest, err)
	}
}
