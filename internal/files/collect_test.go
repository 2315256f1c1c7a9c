package files_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/store"
)

// names is a database in memory. It has the digests of the referenced trees, the
// epoch, and the marked objects.
type names struct {
	mu     sync.Mutex // guards the fields below
	epoch  int64
	named  map[string]bool
	marked map[string]store.MarkedObject
}

func newNames() *names {
	return &names{named: map[string]bool{}, marked: map[string]store.MarkedObject{}}
}

// name adds a reference to a tree if no collection has begun since its commit.
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

// garbage is names as files.CollectionMarks, which commits use.
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
		{0, 1, 0},                         // the root is marked at any age, the pack is too new
		{59 * time.Minute, 0, 0},          // neither has reached the grace period
		{time.Minute + time.Second, 1, 1}, // the pack is marked, the root is deleted
		{time.Second, 0, 1},               // the pack is deleted
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
