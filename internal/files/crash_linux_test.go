package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/index"
)

// Environment variables for the child process that is killed: the folder of the store, the
// folder with the sources of commits, and the number of the operation.
const (
	crashSite      = "STINT_TEST_CRASH_SITE"
	crashSources   = "STINT_TEST_CRASH_SOURCES"
	crashOperation = "STINT_TEST_CRASH_OPERATION"
)

// crashTrees returns the trees that the children store, by name. Most bytes in the pack of
// the first tree belong only to that tree.
var crashTrees = sync.OnceValue(func() map[string]forest {
	at := func(n int64) time.Time { return time.Unix(1_700_000_000+n, n*1_000_001) }
	dir := int64(unix.S_IFDIR)
	first := forest{
		"d":         {mode: dir | 0o750, mtime: at(1)},
		"d/deep":    {mode: dir | 0o700, mtime: at(2)},
		"d/deep/a":  {mode: 0o640, mtime: at(3), body: text(1, 3000)},
		"d/empty":   {mode: 0o600, mtime: at(4)},
		"d/program": {mode: 0o755, mtime: at(5), body: text(2, 500)},
		"large":     {mode: 0o644, mtime: at(6), body: layered(45, 17<<16)},
		"link":      {mode: 0o777, mtime: at(7), target: "d/deep/a"},
		"old":       {mode: 0o644, mtime: at(8), body: noise(4, 90_000)},
		"void":      {mode: dir | 0o755, mtime: at(9)},
	}
	second, third, fourth := maps.Clone(first), maps.Clone(first), maps.Clone(first)
	delete(second, "old")
	second["d/deep/a"] = item{mode: 0o600, mtime: at(10), body: text(5, 3100)}
	second["new"] = item{mode: 0o644, mtime: at(11), body: noise(6, 700)}
	delete(third, "old")
	third["large"] = item{mode: 0o644, mtime: at(12), body: layered(80, 17<<16)}
	third["d/sent"] = item{mode: 0o644, mtime: at(13), body: text(8, 2000)}
	delete(fourth, "large")
	fourth["more"] = item{mode: 0o644, mtime: at(14), body: text(9, 10)}
	return map[string]forest{"first": first, "second": second, "third": third, "fourth": fourth}
})

// crashLooks returns the expected entries of each tree, by its name.
var crashLooks = sync.OnceValue(func() map[string]map[string]look {
	looks := map[string]map[string]look{}
	for name, tree := range crashTrees() {
		looks[name] = itemLooks(tree.items())
	}
	return looks
})

// layered returns n compressible bytes: a text that depends on seed, repeated, with the
// offset inserted every 64 KiB.
func layered(seed byte, n int) []byte {
	b := bytes.Repeat(text(seed, 4<<10), n/(4<<10)+1)[:n]
	for i := 0; i+8 < n; i += 64 << 10 {
		copy(b[i:], fmt.Sprintf("%08d", i))
	}
	return b
}

// writeSources writes the sources of commits to dir: two folders, an upper layer, and a tree
// and its chunks in the encoding of a push.
func writeSources(t *testing.T, dir string) {
	t.Helper()
	trees := crashTrees()
	for _, name := range []string{"first", "third"} {
		if large := trees[name]["large"].body; files.Cut(large) == len(large) {
			t.Fatal("the large files are of one chunk")
		}
	}
	for name, base := range map[string]forest{"first": {}, "second": trees["first"], "fourth": {}} {
		on := filepath.Join(dir, name)
		if err := os.Mkdir(on, 0o700); err != nil {
			t.Fatal(err)
		}
		tree := trees[name]
		if name == "second" { // the large file stays in the base
			base, tree = maps.Clone(base), maps.Clone(tree)
			delete(base, "large")
			delete(tree, "large")
		}
		(&layer{t, on, rand.New(rand.NewPCG(1, 2)), base, tree}).write(".", false)
	}
	l := newLibrary(t, newMemory(), files.Options{})
	tree, frames := taken(t, l, stored(t, l, "", trees["third"].items()...).Digest)
	for name, b := range map[string][]byte{"tree": tree, "chunks": framed(frames...)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// site is a folder with a store, its chunk index, and a book of references, opened by one
// process.
type site struct {
	*testing.T
	dir   string
	store *localfs.Store
	index *index.Index
	book  *book
	lib   *files.Library
}

func openSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{T: t, dir: dir}
	var err error
	if s.store, err = localfs.Open(filepath.Join(dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	if s.index, err = index.Open(filepath.Join(dir, "index")); err != nil {
		t.Fatal(err)
	}
	s.book = openBook(t, filepath.Join(dir, "book"))
	s.lib = newLibrary(t, s.store, files.Options{Index: s.index, Marks: garbage{s.book.names}})
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

func (s *site) name(tree string, ref files.Ref, err error) files.Ref {
	s.Helper()
	s.must(err)
	s.must(s.book.enter(tree, ref))
	return ref
}

func (s *site) collect(compact int) {
	s.Helper()
	_, err := s.lib.Collect(s.Context(), org, s.book, files.CollectOptions{Compact: compact})
	s.must(err)
}

// operations change a site one after the other, each in a separate process.
var operations = []func(s *site, sources string){
	func(s *site, sources string) {
		ref, err := s.lib.CommitDir(s.Context(), org, "", filepath.Join(sources, "first"), files.DirOptions{})
		s.name("first", ref, err)
	},
	func(s *site, sources string) {
		ref, err := s.lib.CommitOverlay(s.Context(), org, s.digest("first"), filepath.Join(sources, "second"), files.DirOptions{})
		s.name("second", ref, err)
	},
	func(s *site, sources string) {
		chunks, err := os.ReadFile(filepath.Join(sources, "chunks"))
		s.must(err)
		_, err = s.lib.PutChunks(s.Context(), org, bytes.NewReader(chunks))
		s.must(err)
		tree, err := os.ReadFile(filepath.Join(sources, "tree"))
		s.must(err)
		ref, err := s.lib.CommitEntries(s.Context(), org, s.digest("first"), bytes.NewReader(tree))
		s.name("third", ref, err)
	},
	func(s *site, sources string) { // without an index and a parent, shared chunks are stored again
		l := newLibrary(s, s.store, files.Options{Marks: garbage{s.book.names}})
		ref, err := l.CommitDir(s.Context(), org, "", filepath.Join(sources, "fourth"), files.DirOptions{})
		s.name("fourth", ref, err)
		s.damage(ref.Digest)
	},
	func(s *site, _ string) {
		s.repair()
		s.must(s.book.write(line{Damage: "repaired"}))
	},
	func(s *site, _ string) {
		s.must(s.book.strike(s.digest("first")))
		s.must(s.book.strike(s.digest("fourth")))
		s.collect(0)
	},
	func(s *site, _ string) { s.collect(0) },
}

// digest returns the digest of the tree with the given name, which must be in the book.
func (s *site) digest(tree string) string {
	for _, d := range s.book.list() {
		if s.book.trees[d] == tree {
			return d
		}
	}
	s.Fatalf("the tree %s is not referenced", tree)
	return ""
}

// repair repairs the pack that the method damage changed. If the process was killed before
// the change, there is nothing to repair.
func (s *site) repair() {
	s.Helper()
	done, err := s.check(files.CheckOptions{Read: true, Repair: true})
	s.must(err)
	if done.Damaged > 1 || done.Repaired != done.Damaged {
		s.Fatalf("a damaged pack: %+v", done)
	}
}

// damage overwrites bytes of the first segment in the only pack of a tree. It first records
// in the book that the pack may be damaged.
func (s *site) damage(digest string) {
	packs, err := s.lib.PacksOf(s.Context(), org, digest)
	s.must(err)
	if len(packs) != 1 {
		s.Fatalf("the tree is stored in the packs %v, want one pack", packs)
	}
	s.must(s.book.write(line{Damage: "done"}))
	f, err := os.OpenFile(filepath.Join(s.dir, "blobs", "objects", org, "packs", packs[0]+"@"), os.O_WRONLY, 0)
	s.must(err)
	_, err = f.WriteAt([]byte("damage"), 3)
	s.must(errors.Join(err, f.Close()))
}

func (s *site) check(o files.CheckOptions) (files.CheckResult, error) {
	return s.lib.Check(s.Context(), org, func(yield func(files.NamedTree, error) bool) {
		for _, d := range s.book.list() {
			if !yield(files.NamedTree{Digest: d, Name: s.book.trees[d]}, nil) {
				return
			}
		}
	}, o)
}

// whole checks out all trees in the book and compares them with crashTrees.
func (s *site) whole() {
	s.Helper()
	for _, d := range s.book.list() {
		name, to := s.book.trees[d], s.TempDir()
		if err := s.lib.Checkout(s.Context(), org, d, to); err != nil {
			s.Errorf("the %s tree: %v", name, err)
		} else if diff := cmp.Diff(crashLooks()[name], folderLooks(s, to)); diff != "" {
			s.Errorf("the %s tree (-want +got):\n%s", name, diff)
		}
	}
	if done, err := s.check(files.CheckOptions{}); err != nil || done.Damaged != 0 {
		s.Errorf("Check returns %+v, %v", done, err)
	}
}

func (s *site) keys() (all []string) {
	for info, err := range s.store.List(s.Context(), "") {
		s.must(err)
		all = append(all, info.Key)
	}
	return all
}

// recover checks the site of a killed child: all trees in the book are complete, and after
// collections the store contains exactly the objects that these trees need.
func (s *site) recover(sources string) {
	s.Helper()
	if left, err := os.ReadDir(filepath.Join(s.dir, "blobs", "tmp")); err != nil || len(left) > 0 {
		s.Errorf("temporary files are left: %v, %v", left, err)
	}
	if s.book.damage == "done" {
		s.repair()
	}
	s.whole()
	ref, err := s.lib.CommitDir(s.Context(), org, "", filepath.Join(sources, "first"), files.DirOptions{})
	s.name("first", ref, err)
	for range 2 {
		s.collect(100)
	}
	if done, err := s.check(files.CheckOptions{Read: true}); err != nil || done.Damaged != 0 {
		s.Errorf("after collections, Check returns %+v, %v", done, err)
	}
	if diff := exact(s, s.lib, s.book.names, s.keys()); diff != "" {
		s.Errorf("what is stored (-want +got):\n%s", diff)
	}
}

// TestSoakCrashes repeats each operation and kills its process after the first, second, …
// system call that changes the disk. Each referenced object must exist, and after two
// collections only referenced objects may remain.
func TestSoakCrashes(t *testing.T) {
	if dir := os.Getenv(crashSite); dir != "" {
		number, err := strconv.Atoi(os.Getenv(crashOperation))
		s := openSite(t, dir)
		s.must(err)
		operations[number](s, os.Getenv(crashSources))
		s.close()
		return
	}
	t.Parallel()
	sources := t.TempDir()
	writeSources(t, sources)
	site := t.TempDir()
	for number := range operations {
		c := &crashes{T: t, sources: sources, from: site, operation: number}
		var workers sync.WaitGroup
		for range 2 {
			workers.Go(c.work)
		}
		workers.Wait()
		if t.Failed() {
			t.Fatalf("in operation %d", number)
		}
		if c.kills.Load() < 4 {
			t.Errorf("operation %d was done after %d steps", number, c.kills.Load())
		}
		site = c.done
	}
}

// crashes kills processes that execute one operation, each after another step.
type crashes struct {
	*testing.T
	sources   string
	from      string // the site before the operation
	operation int
	next      atomic.Int64 // the last process is killed after this number of steps
	kills     atomic.Int64

	mu   sync.Mutex // guards done
	done string     // the site after the operation
}

func (c *crashes) work() {
	for !c.Failed() {
		base, err := os.MkdirTemp(c.TempDir(), "crash")
		if err == nil {
			err = c.once(base, int(c.next.Add(1)))
		}
		if err != nil {
			c.Error(err)
		}
		if c.mu.Lock(); c.done != "" {
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// once executes the operation in a process, kills it after n steps, and checks the site. If
// the process ends before step n, once sets done instead.
func (c *crashes) once(base string, n int) error {
	dir := filepath.Join(base, "site")
	if err := os.CopyFS(dir, os.DirFS(c.from)); err != nil {
		return err
	}
	child := traced{dir: dir, left: n, env: []string{
		crashSite + "=" + dir, crashSources + "=" + c.sources, crashOperation + "=" + strconv.Itoa(c.operation), "TMPDIR=" + base,
	}}
	output := filepath.Join(base, "output")
	if err := child.run(output); err != nil {
		text, _ := os.ReadFile(output)
		return fmt.Errorf("the process to be killed at step %d: %w\n%s", n, err, text)
	}
	if child.left > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done = dir
		return nil
	}
	c.kills.Add(1)
	if n%3 == 0 {
		if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
			return err
		}
	}
	ok := c.Run(fmt.Sprintf("%d-%d", c.operation, n), func(t *testing.T) {
		s := openSite(t, dir)
		defer s.close()
		s.recover(c.sources)
	})
	if !ok {
		return fmt.Errorf("it was killed after step %d: %s", n, strings.Join(child.steps[max(0, len(child.steps)-6):], "; "))
	}
	return os.RemoveAll(base)
}
