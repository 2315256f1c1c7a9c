package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a transfer.Remote that stores chunks and one tree in memory. It verifies
// received chunks and refuses a tree that refers to missing chunks.
type memory struct {
	t testing.TB

	mu     sync.Mutex // guards chunks, tree, asked, sent, and given
	chunks map[treewire.Hash]treewire.Frame
	tree   []byte // tree of the current version
	asked  int    // number of hashes in requests for missing chunks
	sent   int    // number of received chunks
	given  int    // number of chunks in responses

	// breakAt returns after how many bytes the connection breaks during a response of
	// length bytes. The response is complete if the result is at least length, or if
	// breakAt is nil.
	breakAt func(length int) int
	// onSend is called before received chunks are stored. If it returns an error,
	// SendChunks returns this error and stores nothing. A nil onSend is not called.
	onSend func() error
}

func newMemory(t testing.TB) *memory {
	return &memory{t: t, chunks: map[treewire.Hash]treewire.Frame{}}
}

var _ transfer.Remote = (*memory)(nil)

func (m *memory) Missing(_ context.Context, hashes []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, err := treewire.ReadHashes(bytes.NewReader(hashes))
	if err != nil {
		return nil, err
	}
	m.asked += len(asked)
	var missing []treewire.Hash
	for _, h := range asked {
		if _, ok := m.chunks[h]; !ok {
			missing = append(missing, h)
		}
	}
	return treewire.AppendHashes(nil, missing), nil
}

func (m *memory) SendChunks(_ context.Context, frames []byte) error {
	if m.onSend != nil {
		if err := m.onSend(); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in := treewire.NewFrameReader(bytes.NewReader(frames))
	var codec files.Codec
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

func (m *memory) PushTree(_ context.Context, tree io.ReaderAt, size int64) (*stint.FileSetVersion, bool, error) {
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
	return &stint.FileSetVersion{ID: "v1_x"}, added, nil
}

func entries(t testing.TB, tree []byte) (all []*format.Entry) {
	t.Helper()
	r, err := treewire.NewTreeReader(bytes.NewReader(tree))
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

func (m *memory) OpenTree(context.Context) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answer(m.tree), nil
}

func (m *memory) OpenChunks(_ context.Context, selection []byte) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	selected, err := treewire.ReadSelection(bytes.NewReader(selection))
	if err != nil {
		return nil, err
	}
	var chunks []treewire.Hash
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
	b := treewire.AppendFramesHead(nil)
	for _, r := range selected.Ranges {
		for _, h := range chunks[r.First:][:r.Count] {
			f := m.chunks[h]
			b = treewire.AppendFrame(b, &f)
			m.given++
		}
	}
	return m.answer(treewire.AppendFramesEnd(b)), nil
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

// shape describes the entries below dir. It maps the relative path of each entry to its
// mode, its modification time, and the size and checksum of a file or the target of a
// link.
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

// change makes up to twelve random changes below dir: it creates, rewrites, moves, and
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
			_ = os.Rename(full, filepath.Join(dir, name())) // failures are allowed
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

// size returns a random file size in bytes: 3 MiB in one of twenty cases, and otherwise
// at most 70,000 bytes.
func size(rng *rand.Rand) int {
	if rng.IntN(20) == 0 {
		return 3 << 20
	}
	return []int{0, 1, 100, 70_000}[rng.IntN(4)]
}

// random returns n bytes, generated from one of three seeds, so that files share
// chunks. Some large results have a change in the middle.
func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(rng.IntN(3))}).Read(b)
	if n > 2<<20 && rng.IntN(2) == 0 {
		copy(b[rng.IntN(n-100):], "a change in the middle")
	}
	return b
}

func push(t testing.TB, m transfer.Remote, dir string, o transfer.PushOptions) transfer.PushResult {
	t.Helper()
	done, err := transfer.Push(t.Context(), m, dir, o)
	must(t, err)
	return done
}

func pull(t testing.TB, m transfer.Remote, dir string, o transfer.PullOptions) transfer.PullResult {
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

// TestRandomPushPull pushes a folder with random changes and pulls it into a second
// folder, which contains the previous version and its own random changes. After the
// pull, both folders must be equal.
func TestRandomPushPull(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		base, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		from, to := filepath.Join(base, "from"), filepath.Join(base, "to")
		must(t, os.Mkdir(from, 0o755))
		m := newMemory(t)
		// Chunks of files that changed within the last seconds are not cached. With a
		// clock in the future, no file is that new.
		later := func() time.Time { return time.Now().Add(time.Hour) }
		for round := range 3 {
			change(t, rng, from)
			if round > 0 && rng.IntN(2) == 0 {
				change(t, rng, to)
			}
			push(t, m, from, transfer.PushOptions{Cache: filepath.Join(base, "c1"), Now: later})
			before := m.given
			plan := pull(t, m, to, transfer.PullOptions{Cache: filepath.Join(base, "c2"), DryRun: true, Delete: true})
			equal(t, "chunks fetched after a dry run", before, m.given)
			done := pull(t, m, to, transfer.PullOptions{Cache: filepath.Join(base, "c2"), Delete: true, Now: later, Backoff: 1})
			equal(t, fmt.Sprintf("seed %d, round %d", seed, round), shape(t, from), shape(t, to))
			equal(t, "files to write", plan.Written, done.Written)
			if again := pull(t, m, to, transfer.PullOptions{Delete: true}); again.Written.Files+again.Deleted+again.Fetched != 0 {
				t.Errorf("seed %d: a second pull changed the folder: %+v", seed, again)
			}
		}
	})
}
