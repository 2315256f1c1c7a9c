package content_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/content"
	"github.com/stint-dev/stint/internal/content/chunkindex"
)

// crashSite and crashSources name the folders of a child process that is about
// to be killed.
const (
	crashSite    = "STINT_TEST_CRASH_SITE"
	crashSources = "STINT_TEST_CRASH_SOURCES"
)

// crashTrees are the trees that the child stores. What only the first has is
// most of its pack.
func crashTrees() map[string]forest {
	at := func(n int64) time.Time { return time.Unix(1_700_000_000+n, n*1_000_001) }
	dir := int64(unix.S_IFDIR)
	first := forest{
		"d":         {mode: dir | 0o750, mtime: at(1)},
		"d/deep":    {mode: dir | 0o700, mtime: at(2)},
		"d/deep/a":  {mode: 0o640, mtime: at(3), body: text(1, 3000)},
		"d/empty":   {mode: 0o600, mtime: at(4)},
		"d/program": {mode: 0o755, mtime: at(5), body: text(2, 500)},
		"large":     {mode: 0o644, mtime: at(6), body: layered(3, 5<<19)},
		"link":      {mode: 0o777, mtime: at(7), target: "d/deep/a"},
		"old":       {mode: 0o644, mtime: at(8), body: noise(4, 90_000)},
		"void":      {mode: dir | 0o755, mtime: at(9)},
	}
	second, third, fourth := maps.Clone(first), maps.Clone(first), maps.Clone(first)
	delete(second, "old")
	second["d/deep/a"] = item{mode: 0o600, mtime: at(10), body: text(5, 3100)}
	second["new"] = item{mode: 0o644, mtime: at(11), body: noise(6, 700)}
	delete(third, "old")
	third["large"] = item{mode: 0o644, mtime: at(12), body: layered(7, 9<<18)}
	third["d/sent"] = item{mode: 0o644, mtime: at(13), body: text(8, 2000)}
	fourth["more"] = item{mode: 0o644, mtime: at(14), body: text(9, 10)}
	return map[string]forest{"first": first, "second": second, "third": third, "fourth": fourth}
}

// layered gives n bytes that compress well, with parts that differ by seed.
func layered(seed byte, n int) []byte {
	b := bytes.Repeat(text(seed, 4<<10), n/(4<<10)+1)[:n]
	for i := 0; i+8 < n; i += 64 << 10 {
		copy(b[i:], fmt.Sprintf("%08d", i))
	}
	return b
}

// writeSources prepares what the child commits: folders, an upper layer, and a
// tree that was sent.
func writeSources(t *testing.T, dir string) {
	t.Helper()
	trees := crashTrees()
	for name, base := range map[string]forest{"first": {}, "second": trees["first"], "fourth": {}} {
		on := filepath.Join(dir, name)
		if err := os.Mkdir(on, 0o700); err != nil {
			t.Fatal(err)
		}
		(&layer{t, on, rand.New(rand.NewPCG(1, 2)), base, trees[name]}).write(".", false)
	}
	l := newLibrary(t, newMemory(), content.Options{})
	tree, frames := taken(t, l, stored(t, l, "", trees["third"].items()...).Digest)
	for name, b := range map[string][]byte{"tree": tree, "chunks": framed(frames...)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// site is a store in a folder, as one process has it open.
type site struct {
	*testing.T
	dir   string
	store *localfs.Store
	index *chunkindex.Index
	book  *book
	lib   *content.Library
}

func openSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{T: t, dir: dir}
	var err error
	if s.store, err = localfs.Open(filepath.Join(dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	if s.index, err = chunkindex.Open(filepath.Join(dir, "index")); err != nil {
		t.Fatal(err)
	}
	s.book = openBook(t, filepath.Join(dir, "book"))
	s.lib = newLibrary(t, s.store, content.Options{Index: s.index, Garbage: garbage{s.book.names}})
	return s
}

func (s *site) close() {
	s.Helper()
	s.must(errors.Join(s.index.Close(), s.store.Close(), s.book.file.Close()))
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) name(tree string, ref content.Ref, err error) content.Ref {
	s.Helper()
	s.must(err)
	s.must(s.book.enter(tree, ref))
	return ref
}

func (s *site) collect(compact int) {
	s.Helper()
	_, err := s.lib.Collect(s.Context(), org, s.book, content.CollectOptions{Compact: compact})
	s.must(err)
}

// toil does what a store goes through, until it is killed.
func (s *site) toil(sources string) {
	ctx := s.Context()
	from := func(name string) string { return filepath.Join(sources, name) }
	ref, err := s.lib.FromDir(ctx, org, "", from("first"), content.DirOptions{})
	first := s.name("first", ref, err)
	ref, err = s.lib.FromUpper(ctx, org, first.Digest, from("second"), content.DirOptions{})
	s.name("second", ref, err)

	chunks, err := os.ReadFile(from("chunks"))
	s.must(err)
	_, err = s.lib.PutChunks(ctx, org, bytes.NewReader(chunks))
	s.must(err)
	tree, err := os.ReadFile(from("tree"))
	s.must(err)
	ref, err = s.lib.FromEntries(ctx, org, first.Digest, bytes.NewReader(tree))
	s.name("third", ref, err)

	// Without an index and a parent all is stored twice.
	ref, err = newLibrary(s, s.store, content.Options{Garbage: garbage{s.book.names}}).FromDir(ctx, org, "", from("fourth"), content.DirOptions{})
	fourth := s.name("fourth", ref, err)
	s.damage(fourth.Digest)
	done, err := s.check(content.CheckOptions{Read: true, Repair: true})
	s.must(err)
	if done.Damaged != 1 || done.Repaired != 1 {
		s.Fatalf("a damaged pack: %+v", done)
	}
	s.must(s.book.write(line{Damage: "repaired"}))

	s.must(s.book.strike(first.Digest))
	s.must(s.book.strike(fourth.Digest))
	s.collect(0)
	s.collect(0)
}

// damage spoils the first segment of the pack that only the tree has.
func (s *site) damage(digest string) {
	packs, err := s.lib.PacksOf(s.Context(), org, digest)
	s.must(err)
	if len(packs) != 1 {
		s.Fatalf("the tree rests in %v", packs)
	}
	s.must(s.book.write(line{Damage: "done"}))
	f, err := os.OpenFile(filepath.Join(s.dir, "blobs", "objects", org, "packs", packs[0]+"@"), os.O_WRONLY, 0)
	s.must(err)
	_, err = f.WriteAt([]byte("damage"), 3)
	s.must(errors.Join(err, f.Close()))
}

func (s *site) check(o content.CheckOptions) (content.Checked, error) {
	return s.lib.Check(s.Context(), org, func(yield func(content.Named, error) bool) {
		for _, d := range s.book.list() {
			if !yield(content.Named{Digest: d, Name: s.book.trees[d]}, nil) {
				return
			}
		}
	}, o)
}

// whole holds all that is named to what was stored.
func (s *site) whole(when string) {
	s.Helper()
	trees := crashTrees()
	for _, d := range s.book.list() {
		name, to := s.book.trees[d], s.TempDir()
		if err := s.lib.Checkout(s.Context(), org, d, to); err != nil {
			s.Errorf("%s: the %s tree: %v", when, name, err)
		} else if diff := cmp.Diff(itemLooks(trees[name].items()), folderLooks(s, to)); diff != "" {
			s.Errorf("%s: the %s tree (-want +got):\n%s", when, name, diff)
		}
	}
	if done, err := s.check(content.CheckOptions{Read: true}); err != nil || done.Damaged != 0 {
		s.Errorf("%s: Check gives %+v, %v", when, done, err)
	}
}

func (s *site) keys() (all []string) {
	for info, err := range s.store.List(s.Context(), "") {
		s.must(err)
		all = append(all, info.Key)
	}
	return all
}

// recover opens what a killed child has left and holds it to its promises.
func (s *site) recover(sources string) {
	s.Helper()
	if left, err := os.ReadDir(filepath.Join(s.dir, "blobs", "tmp")); err != nil || len(left) > 0 {
		s.Errorf("temporary files are left: %v, %v", left, err)
	}
	if s.book.damage == "done" {
		if done, err := s.check(content.CheckOptions{Read: true, Repair: true}); err != nil || done.Repaired != done.Damaged {
			s.Errorf("a damaged pack: %+v, %v", done, err)
		}
	}
	s.whole("at once")
	ref, err := s.lib.FromDir(s.Context(), org, "", filepath.Join(sources, "first"), content.DirOptions{})
	s.name("first", ref, err)
	s.whole("after a commit")
	for range 2 {
		s.collect(100)
	}
	s.whole("after collections")
	if diff := exact(s, s.lib, s.book.names, s.keys()); diff != "" {
		s.Errorf("what is stored (-want +got):\n%s", diff)
	}
}

// TestCrashes kills a process after each step that changes the disk, in turn,
// and holds what is left to lacking nothing that is named and, after two
// collections, having nothing else.
func TestCrashes(t *testing.T) {
	if dir := os.Getenv(crashSite); dir != "" {
		s := openSite(t, dir)
		s.toil(os.Getenv(crashSources))
		s.close()
		return
	}
	t.Parallel()
	sources := t.TempDir()
	writeSources(t, sources)
	var next, kills atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for !t.Failed() {
				n := int(next.Add(1))
				if !crashOnce(t, sources, n) {
					return
				}
				kills.Add(1)
			}
		})
	}
	workers.Wait()
	t.Logf("killed %d times", kills.Load())
	if kills.Load() < 50 {
		t.Errorf("the child ran through after %d steps", kills.Load())
	}
}

// crashOnce kills a child after n steps and looks at what it left; false where
// the child ran through.
func crashOnce(t *testing.T, sources string, n int) bool {
	base, err := os.MkdirTemp(t.TempDir(), "crash")
	if err != nil {
		t.Error(err)
		return false
	}
	dir := filepath.Join(base, "site")
	child := traced{dir: dir, left: n, env: []string{crashSite + "=" + dir, crashSources + "=" + sources, "TMPDIR=" + base}}
	output := filepath.Join(base, "output")
	if err := errors.Join(os.Mkdir(dir, 0o700), child.run(output)); err != nil {
		text, _ := os.ReadFile(output)
		t.Errorf("the child, to be killed at step %d: %v\n%s", n, err, text)
		return false
	}
	if n%3 == 0 {
		if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
			t.Error(err)
		}
	}
	ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
		s := openSite(t, dir)
		defer s.close()
		s.recover(sources)
	})
	if !ok {
		t.Errorf("it was killed after step %d: %s", n, strings.Join(child.steps[max(0, len(child.steps)-6):], "; "))
	}
	if err := os.RemoveAll(base); err != nil {
		t.Error(err)
	}
	return child.left == 0
}


