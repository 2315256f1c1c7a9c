package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/content"
	"github.com/stint-dev/stint/internal/transfer"
	"github.com/stint-dev/stint/internal/transfer/wire"
)

func TestMain(m *testing.M) {
	// Each case works on folders: the usual hundred would take too long.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// memory is a server that keeps everything in memory. It checks what it gets.
type memory struct {
	t testing.TB

	mu     sync.Mutex // guards the rest
	chunks map[wire.Hash]wire.Frame
	tree   []byte // the current version
	asked  int    // names
	sent   int    // chunks that were received
	given  int    // chunks that were fetched

	// breakAt tells after how many bytes an answer breaks off; nil: never.
	breakAt func(length int) int
	// onSend is called before chunks are stored.
	onSend func() error
}

func newMemory(t testing.TB) *memory {
	return &memory{t: t, chunks: map[wire.Hash]wire.Frame{}}
}

var _ transfer.Remote = (*memory)(nil)

func (m *memory) Missing(_ context.Context, names []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, err := wire.ReadNames(bytes.NewReader(names))
	if err != nil {
		return nil, err
	}
	m.asked += len(asked)
	var missing []wire.Hash
	for _, h := range asked {
		if _, ok := m.chunks[h]; !ok {
			missing = append(missing, h)
		}
	}
	return wire.AppendNames(nil, missing), nil
}

func (m *memory) SendChunks(_ context.Context, frames []byte) error {
	if m.onSend != nil {
		if err := m.onSend(); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in := wire.NewFrameReader(bytes.NewReader(frames))
	var codec content.Codec
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := codec.Chunk(make([]byte, f.Raw), f.Segment, f.Hash); err != nil {
			return err
		}
		f.Segment = bytes.Clone(f.Segment)
		m.chunks[f.Hash] = f
		m.sent++
	}
}

func (m *memory) PushTree(_ context.Context, tree io.ReaderAt, size int64) (*stint.TreeVersion, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := io.ReadAll(io.NewSectionReader(tree, 0, size))
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries(m.t, b) {
		for _, c := range e.Chunks {
			if _, ok := m.chunks[c.Hash]; !ok {
				return nil, false, transfer.ErrChunksMissing
			}
		}
	}
	added := !bytes.Equal(m.tree, b)
	m.tree = b
	return &stint.TreeVersion{ID: "v1_x"}, added, nil
}

func entries(t testing.TB, tree []byte) (all []*wire.Entry) {
	t.Helper()
	r, err := wire.NewTreeReader(bytes.NewReader(tree))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func (m *memory) OpenTree(context.Context) (io.ReadCloser, error) { return m.answer(m.tree), nil }

func (m *memory) OpenChunks(_ context.Context, selection []byte) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	selected, err := wire.ReadSelection(bytes.NewReader(selection))
	if err != nil {
		return nil, err
	}
	var chunks []wire.Hash
	begun := selected.After == ""
	for _, e := range entries(m.t, m.tree) {
		if !begun {
			begun = e.Path == selected.After
			continue
		}
		for _, c := range e.Chunks {
			chunks = append(chunks, c.Hash)
		}
	}
	b := wire.AppendFramesHead(nil)
	for _, r := range selected.Ranges {
		for _, h := range chunks[r.First:][:r.Count] {
			f := m.chunks[h]
			b = wire.AppendFrame(b, &f)
			m.given++
		}
	}
	return m.answer(wire.AppendFramesEnd(b)), nil
}

func (m *memory) answer(b []byte) io.ReadCloser {
	if m.breakAt != nil {
		if n := m.breakAt(len(b)); n < len(b) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(b[:n]), broken{}))
		}
	}
	return io.NopCloser(bytes.NewReader(b))
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection broke") }

// shape is what a folder looks like: modes, times, targets and contents.
func shape(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	must(t, filepath.WalkDir(dir, func(full string, _ fs.DirEntry, err error) error {
		if err != nil || full == dir {
			return err
		}
		name, _ := filepath.Rel(dir, full)
		info, err := os.Lstat(full)
		must(t, err)
		text := fmt.Sprintf("%v %d", info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(full)
			must(t, err)
			text += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		case !info.IsDir():
			target, err := os.Readlink(full)
			must(t, err)
			text += " -> " + target
		}
		got[name] = text
		return nil
	}))
	return got
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// change alters a folder in some random ways: makes, rewrites, moves and
// removes entries.
func change(t testing.TB, rng *rand.Rand, dir string) {
	t.Helper()
	name := func() string { return string(rune('a' + rng.IntN(5))) }
	for range 1 + rng.IntN(12) {
		full := filepath.Join(dir, name())
		for rng.IntN(2) == 0 {
			full = filepath.Join(full, name())
		}
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil {
			continue
		}
		info, err := os.Lstat(full)
		switch rng.IntN(8) {
		case 0:
			must(t, os.RemoveAll(full))
		case 1:
			if err != nil {
				must(t, os.Symlink(name(), full))
			}
		case 2:
			if err != nil {
				must(t, os.Mkdir(full, 0o750))
			}
		case 3:
			_ = os.Rename(full, filepath.Join(dir, name())) // what cannot be moved stays
		case 4:
			if err == nil && info.Mode().IsRegular() {
				must(t, os.Chmod(full, []fs.FileMode{0o600, 0o755, 0o444}[rng.IntN(3)]))
			}
		default:
			if err == nil && !info.Mode().IsRegular() {
				continue
			}
			_ = os.Remove(full)
			must(t, os.WriteFile(full, random(rng, size(rng)), 0o640))
			at := time.Unix(rng.Int64N(2e9), rng.Int64N(1e9))
			must(t, os.Chtimes(full, at, at))
		}
	}
}

// size is small but for one in twenty.
func size(rng *rand.Rand) int {
	if rng.IntN(20) == 0 {
		return 3 << 20
	}
	return []int{0, 1, 100, 70_000}[rng.IntN(4)]
}

// random gives few different contents, so that they occur several times.
func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(rng.IntN(3))}).Read(b)
	if n > 2<<20 && rng.IntN(2) == 0 {
		copy(b[rng.IntN(n-100):], "a change in the middle")
	}
	return b
}

func push(t testing.TB, m transfer.Remote, dir string, o transfer.PushOptions) transfer.Pushed {
	t.Helper()
	done, err := transfer.Push(t.Context(), m, dir, o)
	must(t, err)
	return done
}

func pull(t testing.TB, m transfer.Remote, dir string, o transfer.PullOptions) transfer.Pulled {
	t.Helper()
	done, err := transfer.Pull(t.Context(), m, dir, o)
	must(t, err)
	return done
}

func equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// TestFoldersBecomeTheSame pushes a folder that changes at random and pulls it
// into one that holds an older state, and other things.
func TestFoldersBecomeTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		base, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		from, to := filepath.Join(base, "from"), filepath.Join(base, "to")
		must(t, os.Mkdir(from, 0o755))
		m := newMemory(t)
		// A clock far ahead: all files count as settled, so that the caches are used.
		later := func() time.Time { return time.Now().Add(time.Hour) }
		for round := range 3 {
			change(t, rng, from)
			if round > 0 && rng.IntN(2) == 0 {
				change(t, rng, to)
			}
			push(t, m, from, transfer.PushOptions{Cache: filepath.Join(base, "c1"), Now: later})
			before := m.given
			plan := pull(t, m, to, transfer.PullOptions{Cache: filepath.Join(base, "c2"), DryRun: true, Delete: true})
			equal(t, "chunks given for a dry run", before, m.given)
			done := pull(t, m, to, transfer.PullOptions{Cache: filepath.Join(base, "c2"), Delete: true, Now: later, Backoff: 1})
			equal(t, fmt.Sprintf("seed %d, round %d", seed, round), shape(t, from), shape(t, to))
			equal(t, "files to write", plan.Written, done.Written)
			if again := pull(t, m, to, transfer.PullOptions{Delete: true}); again.Written.Files+again.Deleted+again.Fetched != 0 {
				t.Errorf("seed %d: a second pull did %+v", seed, again)
			}
		}
	})
}

func TestPushSendsWhatIsMissing(t *testing.T) {
	t.Parallel()
	m, dir := newMemory(t), t.TempDir()
	large := make([]byte, 9<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	must(t, os.WriteFile(filepath.Join(dir, "large"), large, 0o644))
	for i := range 50 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, i), 0o644))
	}
	plan := push(t, m, dir, transfer.PushOptions{DryRun: true})
	equal(t, "of a dry run", 0, m.sent)
	first := push(t, m, dir, transfer.PushOptions{})
	equal(t, "sent as planned", plan.Sent, first.Sent)
	equal(t, "all", transfer.Count{Files: 51, Bytes: 9<<20 + 90}, first.All)
	equal(t, "sent", first.All, first.Sent)
	if again := push(t, m, dir, transfer.PushOptions{}); again.Added || again.Sent.Files != 0 {
		t.Errorf("an unchanged folder sent %+v", again)
	}
	large = slices.Insert(large, 5<<20, []byte("a few bytes more")...)
	must(t, os.WriteFile(filepath.Join(dir, "large"), large, 0o644))
	if third := push(t, m, dir, transfer.PushOptions{}); third.Sent.Files != 1 || third.Sent.Bytes > 4<<20 {
		t.Errorf("a small change of a large file sent %+v", third.Sent)
	}
}

func TestCacheSavesReadingAndAsking(t *testing.T) {
	t.Parallel()
	m, dir, cache := newMemory(t), t.TempDir(), filepath.Join(t.TempDir(), "x", "cache")
	for _, name := range []string{"a", "b"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
	clock := time.Now().Add(time.Hour)
	o := transfer.PushOptions{Cache: cache, Now: func() time.Time { return clock }}
	push(t, m, dir, o)
	must(t, os.Chmod(filepath.Join(dir, "a"), 0)) // its stat changes, and it can be read by root alone
	asked := m.asked
	must(t, os.Chmod(filepath.Join(dir, "a"), 0o644))
	push(t, m, dir, o)
	equal(t, "names asked about after a file was touched", 1, m.asked-asked)
	push(t, m, dir, o)
	equal(t, "and when nothing was", 1, m.asked-asked)

	m.chunks = map[wire.Hash]wire.Frame{} // the server lost what the cache says it has
	push(t, m, dir, o)
	equal(t, "chunks on a server that had lost them", 2, len(m.chunks))

	damaged, err := os.ReadFile(cache)
	must(t, err)
	for i := range damaged {
		spoilt := bytes.Clone(damaged)
		spoilt[i] ^= 0x55
		must(t, os.WriteFile(cache, spoilt[:len(spoilt)-i%3], 0o600))
		push(t, m, dir, o)
		equal(t, "the tree by a damaged cache", 2, len(entries(t, m.tree)))
	}
}

func TestWhatChangedAMomentAgoIsReadAgain(t *testing.T) {
	t.Parallel()
	m, dir, cache := newMemory(t), t.TempDir(), filepath.Join(t.TempDir(), "cache")
	file := filepath.Join(dir, "a")
	at := time.Now()
	for _, text := range []string{"one", "two"} { // of one size and time
		must(t, os.WriteFile(file, []byte(text), 0o644))
		must(t, os.Chtimes(file, at, at))
		push(t, m, dir, transfer.PushOptions{Cache: cache})
	}
	equal(t, "content", wire.Hash(sha256.Sum256([]byte("two"))), entries(t, m.tree)[0].Sum)
}

func TestPushGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	m, dir := newMemory(t), t.TempDir()
	for i := range 20 {
		b := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b)
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), b, 0o644))
	}
	calls, down := 0, errors.New("the line is down")
	var mu sync.Mutex
	m.onSend = func() error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls > 2 {
			return down
		}
		return nil
	}
	if _, err := transfer.Push(t.Context(), m, dir, transfer.PushOptions{}); !errors.Is(err, down) {
		t.Fatalf("it ended with %v", err)
	}
	m.onSend = nil
	arrived := m.sent
	if arrived == 0 {
		t.Fatal("nothing had arrived")
	}
	done := push(t, m, dir, transfer.PushOptions{})
	equal(t, "chunks sent in all", 20, m.sent)
	equal(t, "files sent by the second", int64(20-arrived), done.Sent.Files)
}

func TestTwoPushesAtOnce(t *testing.T) {
	t.Parallel()
	m, dir, cache := newMemory(t), t.TempDir(), filepath.Join(t.TempDir(), "cache")
	change(t, rand.New(rand.NewPCG(3, 3)), dir)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := transfer.Push(t.Context(), m, dir, transfer.PushOptions{Cache: cache}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	pull(t, m, filepath.Join(dir, "..", "copy"), transfer.PullOptions{})
}

func TestPullOutlastsBreaks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m, from, to := newMemory(t), t.TempDir(), t.TempDir()
		change(t, rng, from)
		change(t, rng, from)
		push(t, m, from, transfer.PushOptions{})
		var mu sync.Mutex
		breaks := 0
		m.breakAt = func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			if breaks++; breaks%3 == 0 {
				return n
			}
			return rng.IntN(n)
		}
		pull(t, m, to, transfer.PullOptions{Backoff: 1})
		equal(t, "the folder", shape(t, from), shape(t, to))
	}
}

func TestPullGoesOnInsideALargeFile(t *testing.T) {
	t.Parallel()
	m, from, to := newMemory(t), t.TempDir(), t.TempDir()
	b := make([]byte, 40<<20)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(b)
	must(t, os.WriteFile(filepath.Join(from, "large"), b, 0o644))
	push(t, m, from, transfer.PushOptions{})
	ctx, stop := context.WithCancel(t.Context())
	moved := int64(0)
	_, err := transfer.Pull(ctx, m, to, transfer.PullOptions{Progress: progress(func(n int64) {
		if moved += n; moved > 20<<20 {
			stop()
		}
	})})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	done := pull(t, m, to, transfer.PullOptions{})
	if done.Fetched > 20<<20 || done.Fetched == 0 {
		t.Errorf("the second pull fetched %d bytes", done.Fetched)
	}
	equal(t, "the folder", shape(t, from), shape(t, to))
}

type progress func(int64)

func (p progress) Expect(int64) {}
func (p progress) Done(n int64) { p(n) }

func TestPullLeavesOrDeletes(t *testing.T) {
	t.Parallel()
	m, from, to := newMemory(t), t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "a"), []byte("a"), 0o644))
	must(t, os.WriteFile(filepath.Join(from, ".stintignore"), []byte("*.log\n"), 0o644))
	push(t, m, from, transfer.PushOptions{})
	for _, name := range []string{"own/deep/file", "own/x.log", "b", "y.log", "a/in/the/way"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(to, name), nil, 0o644))
	}
	if _, err := transfer.Pull(t.Context(), m, to, transfer.PullOptions{}); err == nil {
		t.Error("a folder that holds files was replaced by a file")
	}
	must(t, os.RemoveAll(filepath.Join(to, "a")))
	pull(t, m, to, transfer.PullOptions{})
	names := slices.Sorted(maps.Keys(shape(t, to)))
	equal(t, "without deleting", []string{".stintignore", "a", "b", "own", "own/deep", "own/deep/file", "own/x.log", "y.log"}, names)
	done := pull(t, m, to, transfer.PullOptions{Delete: true})
	names = slices.Sorted(maps.Keys(shape(t, to)))
	equal(t, "with deleting", []string{".stintignore", "a", "own", "own/x.log", "y.log"}, names)
	equal(t, "deleted", int64(3), done.Deleted)
}

func TestHostileVersionsStayInside(t *testing.T) {
	t.Parallel()
	hash := wire.Hash(sha256.Sum256([]byte("x")))
	file := func(path string) *wire.Entry {
		return &wire.Entry{Path: path, Kind: wire.File, Mode: 0o644, Chunks: []wire.Chunk{{Hash: hash, Raw: 1}}}
	}
	link := func(path, target string) *wire.Entry {
		return &wire.Entry{Path: path, Kind: wire.Link, Mode: 0o777, Target: target}
	}
	for name, tree := range map[string][]*wire.Entry{
		"traversal":     {file("../x")},
		"absolute":      {file("/x")},
		"below a link":  {link("a", ".."), file("a/x")},
		"link outside":  {link("a", "../outside")},
		"absolute link": {link("a", "/etc/passwd")},
		"twice":         {file("a"), file("a")},
		"wrong sum":     {{Path: "a", Kind: wire.File, Mode: 0o644, Chunks: []wire.Chunk{{Hash: hash, Raw: 1}, {Hash: hash, Raw: 1}}}},
	} {
		m, base := newMemory(t), t.TempDir()
		to := filepath.Join(base, "to")
		m.tree = treeOf(t, tree)
		var codec content.Codec
		segment, err := codec.Segment([]byte("x"))
		must(t, err)
		m.chunks[hash] = wire.Frame{Hash: hash, Raw: 1, Segment: segment}
		if _, err := transfer.Pull(t.Context(), m, to, transfer.PullOptions{Backoff: 1}); err == nil {
			t.Errorf("%s: it was pulled", name)
		}
		for path := range shape(t, base) {
			if path != "to" && !strings.HasSuffix(path, ".part") {
				t.Errorf("%s: %s was written", name, path)
			}
		}
	}
}

func treeOf(t *testing.T, entries []*wire.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := wire.NewTreeWriter(&b)
	must(t, err)
	for _, e := range entries {
		must(t, w.Add(e))
	}
	must(t, w.Close())
	return b.Bytes()
}

func TestPullFollowsNoLinkOut(t *testing.T) {
	t.Parallel()
	m, from, base := newMemory(t), t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(from, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "d", "f"), []byte("new"), 0o644))
	push(t, m, from, transfer.PushOptions{})
	to, outside := filepath.Join(base, "to"), filepath.Join(base, "outside")
	must(t, os.Mkdir(to, 0o755))
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("old"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(to, "d")))
	pull(t, m, to, transfer.PullOptions{})
	b, err := os.ReadFile(filepath.Join(outside, "f"))
	must(t, err)
	equal(t, "the file outside", "old", string(b))
}

func TestPullRefusesWhatItDidNotAskFor(t *testing.T) {
	t.Parallel()
	m, from := newMemory(t), t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "a"), []byte("right"), 0o644))
	push(t, m, from, transfer.PushOptions{})
	for hash, f := range m.chunks {
		var codec content.Codec
		segment, err := codec.Segment([]byte("wrong"))
		must(t, err)
		f.Segment = segment
		m.chunks[hash] = f
	}
	to := t.TempDir()
	if _, err := transfer.Pull(t.Context(), m, to, transfer.PullOptions{}); err == nil {
		t.Error("a wrong chunk was written")
	}
	equal(t, "the folder", map[string]string{}, shape(t, to))
}
