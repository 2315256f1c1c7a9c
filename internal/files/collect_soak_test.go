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

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
	"pgregory.net/rapid"
)

// stepped is a store that calls a function once, before one of its operations.
type stepped struct {
	blob.Store

	mu   sync.Mutex // guards the fields below; other operations wait while then runs
	left int        // operations until then is called, including that operation
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

// world is a store in which trees are committed, removed, and collected.
type world struct {
	t       fataler
	ctx     context.Context
	store   *memory
	steps   *stepped
	lib     *files.Library // over steps
	plain   *files.Library // over store
	names   *names
	whole   *files.Library    // over a store in which nothing is deleted
	bodies  map[string][]byte // expected archives by digest
	removed string            // the tree whose reference was removed last
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

// commit stores a tree and adds a reference to it. If a collection interferes, commit
// tries again.
func (w *world) commit(l *files.Library, parent string, items []item) {
	for range 20 {
		named := slices.Contains(w.names.list(), parent)
		err := w.tree(l, parent, items)
		var refused *stint.Error // the index has a pack that another process deleted
		if errors.Is(err, files.ErrStale) || errors.As(err, &refused) && refused.Kind == stint.KindUnavailable {
			continue
		}
		if err != nil && parent != "" && (!named || !slices.Contains(w.names.list(), parent)) {
			parent = "" // the parent was deleted
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

// check compares the archive of every referenced tree with the expected one.
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

// exact returns a description of the trees and segments that are unreferenced, missing,
// or stored twice. It returns "" if there are none. keys are all keys of the store.
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
				return s + " is stored twice"
			}
			got[s] = true
		}
	}
	if maps.Equal(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// operation is a change to a world.
type operation struct {
	what string
	pick int    // index of a referenced tree
	tree string // one byte for each file, which determines its content
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

// TestSoakCollections commits, removes, and collects trees in random order. Further
// random operations run between the steps of some operations. All referenced trees
// must stay complete, and in the end only referenced objects may be stored.
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
							continue // at most two collections at a time
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
