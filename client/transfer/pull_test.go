package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

func TestPullRetriesBrokenConnections(t *testing.T) {
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

func TestPullContinuesLargeFile(t *testing.T) {
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

func TestPullDelete(t *testing.T) {
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

// TestMovedFoldersAreNotFetchedAgain checks that, if a folder was moved, a pull copies
// its files from the old local path, which is known from the cache of the previous
// pull. A pull does not read local folders that are not in a pulled version.
func TestMovedFoldersAreNotFetchedAgain(t *testing.T) {
	t.Parallel()
	m, from, to := newMemory(t), t.TempDir(), t.TempDir()
	later := func() time.Time { return time.Now().Add(time.Hour) }
	o := transfer.PullOptions{Cache: filepath.Join(t.TempDir(), "cache"), Now: later}
	must(t, os.MkdirAll(filepath.Join(from, "old", "deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "old", "deep", "file"), []byte("content"), 0o644))
	push(t, m, from, transfer.PushOptions{})
	pull(t, m, to, o)
	must(t, os.Rename(filepath.Join(from, "old"), filepath.Join(from, "new")))
	push(t, m, from, transfer.PushOptions{})
	if done := pull(t, m, to, o); done.Fetched != 0 || done.Written.Files != 1 {
		t.Errorf("of a moved folder %+v", done)
	}
	must(t, os.RemoveAll(filepath.Join(to, "new")))
	must(t, os.Rename(filepath.Join(to, "old"), filepath.Join(to, "own")))
	if done := pull(t, m, to, o); done.Fetched != 7 {
		t.Errorf("beside a folder of no version %+v", done)
	}
}

func TestMaliciousVersionsAreRefused(t *testing.T) {
	t.Parallel()
	hash := treewire.Hash(sha256.Sum256([]byte("x")))
	file := func(path string) *format.Entry {
		return &format.Entry{Path: path, Kind: format.File, Mode: 0o644, Chunks: []format.Chunk{{Hash: hash, Size: 1}}}
	}
	link := func(path, target string) *format.Entry {
		return &format.Entry{Path: path, Kind: format.Symlink, Mode: 0o777, Target: target}
	}
	for name, tree := range map[string][]*format.Entry{
		"traversal":    {file("../x")},
		"absolute":     {file("/x")},
		"below a link": {link("a", ".."), file("a/x")},
		"twice":        {file("a"), file("a")},
		"wrong sum":    {{Path: "a", Kind: format.File, Mode: 0o644, Chunks: []format.Chunk{{Hash: hash, Size: 1}, {Hash: hash, Size: 1}}}},
	} {
		m, base := newMemory(t), t.TempDir()
		to := filepath.Join(base, "to")
		m.tree = treeOf(t, tree)
		var codec files.Codec
		segment, err := codec.Segment([]byte("x"))
		must(t, err)
		m.chunks[hash] = treewire.Frame{Hash: hash, Raw: 1, Segment: segment}
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

// TestLinksOutOfFolderAreLeftOut checks that a version with links out of the folder, such
// as those of a virtual environment, can be pulled without them.
func TestLinksOutOfFolderAreLeftOut(t *testing.T) {
	t.Parallel()
	m, to := newMemory(t), t.TempDir()
	link := func(path, target string) *format.Entry {
		return &format.Entry{Path: path, Kind: format.Symlink, Mode: 0o777, Target: target}
	}
	m.tree = treeOf(t, []*format.Entry{link("absolute", "/etc/passwd"), link("inside", "absolute"), link("outside", "../x")})
	done := pull(t, m, to, transfer.PullOptions{})
	equal(t, "links that were left out", []transfer.Link{{Path: "absolute", Target: "/etc/passwd"}, {Path: "outside", Target: "../x"}}, done.LeftOut)
	for path, written := range map[string]bool{"absolute": false, "inside": true, "outside": false} {
		if _, err := os.Lstat(filepath.Join(to, path)); (err == nil) != written {
			t.Errorf("%s: %v, want it written: %v", path, err, written)
		}
	}
}

func treeOf(t *testing.T, entries []*format.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := treewire.NewTreeWriter(&b)
	must(t, err)
	for _, e := range entries {
		must(t, w.Add(e))
	}
	must(t, w.Close())
	return b.Bytes()
}

func TestPullDoesNotFollowLinks(t *testing.T) {
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

func TestPullRefusesWrongChunks(t *testing.T) {
	t.Parallel()
	m, from := newMemory(t), t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "a"), []byte("right"), 0o644))
	push(t, m, from, transfer.PushOptions{})
	for hash, f := range m.chunks {
		var codec files.Codec
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
