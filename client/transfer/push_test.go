package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/internal/files/treewire"
)

func TestPushSendsMissingChunks(t *testing.T) {
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

func TestCache(t *testing.T) {
	t.Parallel()
	m, dir, cache := newMemory(t), t.TempDir(), filepath.Join(t.TempDir(), "x", "cache")
	for _, name := range []string{"a", "b"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
	clock := time.Now().Add(time.Hour)
	o := transfer.PushOptions{Cache: cache, Now: func() time.Time { return clock }}
	push(t, m, dir, o)
	asked := m.asked
	for m.asked == asked { // change times are coarse: repeat until the change time differs
		must(t, os.Chmod(filepath.Join(dir, "a"), 0))
		must(t, os.Chmod(filepath.Join(dir, "a"), 0o644))
		push(t, m, dir, o)
	}
	equal(t, "names asked about after a file was touched", 1, m.asked-asked)
	push(t, m, dir, o)
	equal(t, "and when nothing was", 1, m.asked-asked)

	m.chunks = map[treewire.Hash]treewire.Frame{} // the server loses all chunks; the cache still lists them
	push(t, m, dir, o)
	equal(t, "chunks on a server that had lost them", 2, len(m.chunks))

	damaged, err := os.ReadFile(cache)
	must(t, err)
	for i := range damaged {
		corrupted := bytes.Clone(damaged)
		corrupted[i] ^= 0x55
		must(t, os.WriteFile(cache, corrupted[:len(corrupted)-i%3], 0o600))
		push(t, m, dir, o)
		equal(t, "the tree by a damaged cache", 2, len(entries(t, m.tree)))
	}
}

func TestRecentChangesAreReadAgain(t *testing.T) {
	t.Parallel()
	m, dir, cache := newMemory(t), t.TempDir(), filepath.Join(t.TempDir(), "cache")
	file := filepath.Join(dir, "a")
	at := time.Now()
	for _, text := range []string{"one", "two"} { // with the same size and modification time
		must(t, os.WriteFile(file, []byte(text), 0o644))
		must(t, os.Chtimes(file, at, at))
		push(t, m, dir, transfer.PushOptions{Cache: cache})
	}
	equal(t, "content", treewire.Hash(sha256.Sum256([]byte("two"))), entries(t, m.tree)[0].SHA256)
}

func TestPushContinues(t *testing.T) {
	t.Parallel()
	m, dir := newMemory(t), t.TempDir()
	for i := range 20 {
		b := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b)
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), b, 0o644))
	}
	calls, down := 0, errors.New("the connection is down")
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

func TestConcurrentPushes(t *testing.T) {
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
