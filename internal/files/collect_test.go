package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/store"
	"pgregory.net/rapid"
)

// names is the database of a test: referenced trees, the epoch, and marked
// objects.
type names struct {
	mu     sync.Mutex // guards the fields below
	epoch  int64
	named  map[string]bool
	marked map[string]store.MarkedObject
}

func newNames() *names {
	return &names{named: map[string]bool{}, marked: map[string]store.MarkedObject{}}
}

// name adds a reference to a tree if the epoch of its commit is current.
func (n *names) name(ref files.Ref) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ref.Epoch != n.epoch {
		return store.ErrEpoch
	}
	n.named[ref.Digest] = true
	return nil
}

func (n *names) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.named))
}

func (n *names) forget(digest string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.named, digest)
}

func (n *names) BeginCollection(context.Context, string) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch++
	return n.epoch, nil
}

func (n *names) LiveDigests(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, d := range n.list() {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (n *names) MarkedObjects(context.Context, string) (int64, []store.MarkedObject, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []store.MarkedObject
	for _, key := range slices.Sorted(maps.Keys(n.marked)) {
		all = append(all, n.marked[key])
	}
	return n.epoch, all, nil
}

// garbage is the part of the database that commits use.
type garbage struct{ *names }

func (g garbage) Marked(ctx context.Context, org string) (int64, []string, error) {
	epoch, list, err := g.MarkedObjects(ctx, org)
	var keys []string
	for _, c := range list {
		keys = append(keys, c.Key)
	}
	return epoch, keys, err
}

func (n *names) MarkObjects(_ context.Context, _ string, epoch int64, keys []string, at stint.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range keys {
		if _, ok := n.marked[k]; !ok {
			n.marked[k] = store.MarkedObject{Key: k, Epoch: epoch, Since: at.Time}
		}
	}
	return nil
}

func (n *names) UnmarkObjects(_ context.Context, _ string, keys []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range keys {
		delete(n.marked, k)
	}
	return nil
}

// stepped is a store that calls then before one of its operations.
type stepped struct {
	blob.Store

	mu   sync.Mutex // guards the fields below; other operations wait while then runs
	left int        // operations before that
	then func()
}

func (s *stepped) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 && s.then != nil {
		then := s.then
		s.then = nil
		then()
	}
}

func (s *stepped) Put(ctx context.Context, key string, r io.Reader, n int64) error {
	s.step()
	return s.Store.Put(ctx, key, r, n)
}

func (s *stepped) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	s.step()
	return s.Store.Get(ctx, key, offset, n)
}

func (s *stepped) Stat(ctx context.Context, key string) (blob.Info, error) {
	s.step()
	return s.Store.Stat(ctx, key)
}

func (s *stepped) Delete(ctx context.Context, key string) error {
	s.step()
	return s.Store.Delete(ctx, key)
}

func (s *stepped) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	s.step()
	return s.Store.List(ctx, prefix)
}

// memoryIndex is a chunk index in memory.
type memoryIndex struct {
	mu    sync.Mutex // guards the fields below
	packs map[string][]format.Segment
	gone  map[string]bool
}

func newMemoryIndex() *memoryIndex {
	return &memoryIndex{packs: map[string][]format.Segment{}, gone: map[string]bool{}}
}

func (x *memoryIndex) Find(_ string, h format.Hash) (found format.Chunk, ok bool, err error) {
	for name := range x.Packs("") {
		for _, c := range x.packs[name] {
			if c.Kind == format.ChunkSegment && c.Hash == h {
				return format.Chunk{Hash: h, Size: c.Size, Place: format.Place{Pack: name, Offset: c.Offset, Length: c.Length, CRC: c.CRC}}, true, nil
			}
		}
	}
	return found, false, nil
}

func (x *memoryIndex) Add(_, pack string, segments []format.Segment) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.gone[pack] {
		x.packs[pack] = segments
	}
	return nil
}

func (x *memoryIndex) Has(_, pack string) bool { return x.packs[pack] != nil }

func (x *memoryIndex) Packs(string) iter.Seq[string] {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Values(slices.Sorted(maps.Keys(x.packs)))
}

func (x *memoryIndex) Drop(_ string, packs []string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range packs {
		delete(x.packs, p)
		x.gone[p] = true
	}
	return nil
}

// world is a store with versions that are added and removed.
type world struct {
	t       fataler
	ctx     context.Context
	store   *memory
	steps   *stepped
	lib     *files.Library // over steps
	plain   *files.Library // over store
	names   *names
	whole   *files.Library // over a store in which nothing is deleted
	bodies  map[string][]byte
	removed string // the tree whose reference was removed last
}

type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newWorld(t *testing.T, rt fataler) *world {
	w := &world{t: rt, ctx: t.Context(), store: newMemory(), names: newNames(), bodies: map[string][]byte{}}
	w.steps = &stepped{Store: w.store}
	dir := t.TempDir()
	for lib, s := range map[**files.Library]blob.Store{&w.lib: w.steps, &w.plain: w.store, &w.whole: newMemory()} {
		var err error
		if *lib, err = files.New(s, files.Options{TempDir: dir, Marks: garbage{w.names}, Index: newMemoryIndex()}); err != nil {
			rt.Fatal(err)
		}
	}
	return w
}

// commit stores a tree and refers to it. It repeats the commit while
// collections interfere.
func (w *world) commit(l *files.Library, parent string, items []item) {
	for range 20 {
		named := slices.Contains(w.names.list(), parent)
		err := w.tree(l, parent, items)
		var refused *stint.Error // the index has a pack that another process deleted
		if errors.Is(err, files.ErrStale) || errors.As(err, &refused) && refused.Kind == stint.KindUnavailable {
			continue
		}
		if err != nil && parent != "" && (!named || !slices.Contains(w.names.list(), parent)) {
			parent = "" // was deleted
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return
	}
	w.t.Fatal("a commit is overtaken again and again")
}

func (w *world) tree(l *files.Library, parent string, items []item) error {
	archive := plainTar(w.t, items)
	ref, err := l.CommitArchive(w.ctx, org, parent, files.Tar, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	if _, known := w.bodies[ref.Digest]; !known {
		same, err := w.whole.CommitArchive(w.ctx, org, "", files.Tar, bytes.NewReader(archive))
		if err != nil || same.Digest != ref.Digest {
			w.t.Fatalf("the tree is %s, %v; want %s", same.Digest, err, ref.Digest)
		}
		w.bodies[ref.Digest] = w.archive(w.whole, ref.Digest)
	}
	return l.Publish(w.ctx, org, []files.Ref{ref}, func(epoch int64) error {
		named := ref
		named.Epoch = epoch
		return w.names.name(named)
	})
}

func plainTar(t fataler, items []item) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		err := w.WriteHeader(i.header())
		if err == nil {
			_, err = w.Write(i.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (w *world) archive(l *files.Library, digest string) []byte {
	a, err := l.Download(w.ctx, org, digest, files.TarGzip)
	if err != nil {
		w.t.Fatalf("opening %s: %v", digest, err)
	}
	defer a.Close()
	b, err := io.ReadAll(a)
	if err != nil {
		w.t.Fatalf("reading %s: %v", digest, err)
	}
	return b
}

// check reads every referenced tree.
func (w *world) check() {
	for _, d := range w.names.list() {
		if !bytes.Equal(w.archive(w.plain, d), w.bodies[d]) {
			w.t.Fatalf("the tree %s is not what it was", d)
		}
	}
}

func (w *world) collect(l *files.Library) files.CollectResult {
	done, err := l.Collect(w.ctx, org, w.names, files.CollectOptions{Compact: 100})
	if err != nil && !errors.Is(err, files.ErrCollecting) {
		w.t.Fatalf("Collect: %v", err)
	}
	return done
}

// exact returns the segments that the store has but should not have, and those
// that it lacks. keys are all its keys.
func exact(t fataler, l *files.Library, n *names, keys []string) string {
	ctx := context.Background()
	want, got := map[string]bool{}, map[string]bool{}
	for _, d := range n.list() {
		want["tree "+d] = true
		segments, err := l.LiveSegments(ctx, org, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range segments {
			want[s] = true
		}
	}
	for _, key := range keys {
		if rest, ok := strings.CutPrefix(key, org+"/manifests/"); ok {
			digest, _, _ := strings.Cut(rest, ".")
			got["tree "+digest] = true
			continue
		}
		segments, err := l.StoredSegments(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range segments {
			if got[s] {
				return s + " rests twice"
			}
			got[s] = true
		}
	}
	if maps.Equal(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// operation is a change of a world.
type operation struct {
	what string
	pick int    // index of a referenced tree
	tree string // one byte for each file
}

func (w *world) do(l *files.Library, d operation) {
	known := w.names.list()
	var items []item
	for i, seed := range d.tree {
		items = append(items, item{name: fmt.Sprintf("f%d", i), body: text(byte(seed), 300)})
	}
	switch {
	case d.what == "collect":
		w.collect(l)
	case d.what == "remove" && len(known) > 0:
		w.removed = known[d.pick%len(known)]
		w.names.forget(w.removed)
	case d.what == "commit" && d.pick < 3:
		w.commit(l, "", items)
	case d.what == "commit" && d.pick < 6:
		w.commit(l, w.removed, items) // the parent may be deleted
	case d.what == "commit" && len(known) > 0:
		w.commit(l, known[d.pick%len(known)], items)
	}
}

// TestSoakCollections commits, deletes, and collects at random, with other
// commits, deletions, and collections between their steps. No referenced tree
// may lack a byte, and in the end only referenced objects are stored.
func TestSoakCollections(t *testing.T) {
	t.Parallel()
	operations := rapid.Custom(func(rt *rapid.T) operation {
		return operation{
			what: rapid.SampledFrom([]string{"commit", "commit", "remove", "collect"}).Draw(rt, "what"),
			pick: rapid.IntRange(0, 9).Draw(rt, "pick"),
			tree: rapid.StringMatching(`[a-f]{1,4}`).Draw(rt, "tree"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"do": func(*rapid.T) { w.do(w.lib, operations.Draw(rt, "operation")) },
			"do two": func(*rapid.T) {
				w.steps.left = rapid.IntRange(1, 40).Draw(rt, "step")
				between := rapid.SliceOfN(operations, 1, 5).Draw(rt, "between")
				outer, collected := operations.Draw(rt, "operation"), false
				w.steps.then = func() {
					for _, d := range between {
						if outer.what == "collect" && d.what == "collect" && collected {
							continue // at most two at a time
						}
						collected = collected || d.what == "collect"
						w.do(w.plain, d)
					}
				}
				w.do(w.lib, outer)
				w.steps.then = nil
			},
			"": func(*rapid.T) { w.check() },
		})
		w.collect(w.lib)
		w.collect(w.lib)
		w.check()
		if diff := exact(rt, w.plain, w.names, w.store.keys()); diff != "" {
			rt.Fatalf("what is stored (-want +got):\n%s", diff)
		}
		w.collect(w.lib) // deletes the roots
		if len(w.names.marked) > 0 {
			rt.Fatalf("still marked: %v", w.names.marked)
		}
	})
}

// TestReaderSurvivesCompaction reads a tree while its pack is replaced.
func TestReaderSurvivesCompaction(t *testing.T) {
	t.Parallel()
	s, n := newMemory(), newNames()
	l := newLibrary(t, s, files.Options{Marks: garbage{n}, Index: newIndex(t)})
	large := item{name: "a", body: noise(1, 300_000)}
	small := []item{{name: "b", body: text(2, 3000)}, {name: "c", body: noise(3, 5000)}}
	first := stored(t, l, "", append([]item{large}, small...)...)
	second := stored(t, l, first.Digest, small...)
	want := readArchive(t, l, second.Digest)
	a, err := l.Download(t.Context(), org, second.Digest, files.TarGzip)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got := make([]byte, 100)
	if _, err := io.ReadFull(a, got); err != nil {
		t.Fatal(err)
	}
	if err := n.name(second); err != nil {
		t.Fatal(err)
	}
	before, sum := packs(s), files.CollectResult{}
	for range 2 {
		done, err := l.Collect(t.Context(), org, n, files.CollectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sum.Compacted += done.Compacted
		sum.Freed += done.Freed
	}
	if after := packs(s); sum.Compacted != 1 || slices.Contains(after, before[0]) || !slices.Contains(after, before[0]+".1") {
		t.Errorf("%+v: of the packs %v are left %v", sum, before, after)
	}
	if sum.Freed < 300_000 || sum.Freed > 310_000 {
		t.Errorf("%d bytes are said to be freed", sum.Freed)
	}
	rest, err := io.ReadAll(a)
	if err != nil || !bytes.Equal(append(got, rest...), want) {
		t.Errorf("read on: %v", err)
	}
	// A commit finds the chunks in the compacted pack.
	third := stored(t, l, second.Digest, append(slices.Clone(small), item{name: "d", body: small[0].body})...)
	if err := l.Checkout(t.Context(), org, third.Digest, t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestDryRunDoesNothing(t *testing.T) {
	t.Parallel()
	s, n := newMemory(), newNames()
	l := newLibrary(t, s, files.Options{Marks: garbage{n}})
	stored(t, l, "", item{name: "a", body: text(1, 3000)})
	before := s.keys()
	got, err := l.Collect(t.Context(), org, n, files.CollectOptions{DryRun: true})
	if diff := cmp.Diff(files.CollectResult{Marked: 2}, got); diff != "" || err != nil {
		t.Errorf("Collect, %v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(before, s.keys()); diff != "" || n.epoch != 0 || len(n.marked) > 0 {
		t.Errorf("epoch %d, marked %v, objects (-want +got):\n%s", n.epoch, n.marked, diff)
	}
}

func TestGrace(t *testing.T) {
	t.Parallel()
	s, n := newMemory(), newNames()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	clock := func() time.Time { return now }
	l := newLibrary(t, s, files.Options{Marks: garbage{n}, IDs: stint.NewIDs(clock, bytes.NewReader(noise(9, 1000)))})
	stored(t, l, "", item{name: "a", body: text(1, 3000)})
	for _, step := range []struct {
		after           time.Duration
		marked, deleted int64
	}{
		{0, 1, 0},                // the root, for which no age is required
		{59 * time.Minute, 0, 0}, // the grace period of the mark has not ended
		{time.Minute + time.Second, 1, 1},
		{time.Second, 0, 1},
	} {
		now = now.Add(step.after)
		got, err := l.Collect(t.Context(), org, n, files.CollectOptions{Grace: time.Hour, Now: clock})
		if err != nil || got.Marked != step.marked || got.Deleted != step.deleted {
			t.Errorf("after %v Collect = %+v, %v", step.after, got, err)
		}
	}
	if left := s.keys(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
