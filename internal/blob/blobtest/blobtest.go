// Package blobtest is the suite that every adapter of blob.Store passes.
//
// An adapter's test calls Run with a Harness. Every case has its own store.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stint-dev/stint/internal/blob"
)

// Harness creates stores of an adapter.
type Harness struct {
	// New returns an empty store that is usable until t ends.
	New func(t *testing.T) blob.Store
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	cases := []struct {
		name string
		run  func(*testing.T, blob.Store)
	}{
		{"round trip", roundTrip},
		{"missing object", missingObject},
		{"ranges", ranges},
		{"a failing reader leaves nothing", failingReader},
		{"a wrong size leaves nothing", wrongSize},
		{"create only", createOnly},
		{"concurrent puts have one winner", oneWinner},
		{"unknown length", unknownLength},
		{"unusual keys", unusualKeys},
		{"invalid keys are refused", invalidKeys},
		{"list in key order", list},
		{"list stops early", listStops},
		{"delete is idempotent", deleteTwice},
		{"a cancelled context stops", cancelled},
		{"a context cancelled while reading stops", cancelledMidway},
		{"an open reader outlives a delete", readerOutlivesDelete},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, h.New(t))
		})
	}
}

// noise returns n incompressible bytes that depend only on seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	if _, err := src.Read(b); err != nil {
		panic(err)
	}
	return b
}

func put(t *testing.T, s blob.Store, key string, content []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
}

func get(t *testing.T, s blob.Store, key string, offset, n int64) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), key, offset, n)
	if err != nil {
		t.Fatalf("Get(%q, %d, %d): %v", key, offset, n, err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("reading %q from %d: %v", key, offset, err)
	}
	return b
}

func wantContent(t *testing.T, s blob.Store, key string, want []byte) {
	t.Helper()
	if got := get(t, s, key, 0, -1); !bytes.Equal(got, want) {
		t.Errorf("%q has %d bytes that differ from the %d that were stored", key, len(got), len(want))
	}
	info, err := s.Stat(t.Context(), key)
	if err != nil || info != (blob.Info{Key: key, Size: int64(len(want))}) {
		t.Errorf("Stat(%q) = %+v, %v", key, info, err)
	}
}

func wantAbsent(t *testing.T, s blob.Store, key string) {
	t.Helper()
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat(%q) = %v, want ErrNotFound", key, err)
	}
	r, err := s.Get(t.Context(), key, 0, -1)
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Get(%q) = %v, want ErrNotFound", key, err)
	}
	if keys := keysUnder(t, s, ""); len(keys) != 0 {
		t.Errorf("the store lists %q, want nothing", keys)
	}
}

func keysUnder(t *testing.T, s blob.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List(%q): %v", prefix, err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func roundTrip(t *testing.T, s blob.Store) {
	for i, size := range []int{0, 1, 4095, 4096, 1 << 20, 5<<20 + 3} {
		key := fmt.Sprintf("org/packs/%d", i)
		content := noise(uint64(i), size)
		put(t, s, key, content)
		wantContent(t, s, key, content)
	}
}

func missingObject(t *testing.T, s blob.Store) {
	wantAbsent(t, s, "a/b")
	put(t, s, "a/b", nil)
	for _, key := range []string{"a", "a/b/c", "a/c"} {
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Stat(%q) = %v, want ErrNotFound", key, err)
		}
	}
}

func ranges(t *testing.T, s blob.Store) {
	content := noise(7, 100_000)
	put(t, s, "k", content)
	for _, c := range []struct{ offset, n int64 }{
		{0, 0},
		{0, 1},
		{0, 100_000},
		{0, 100_001},
		{1, -1},
		{99_999, 1},
		{99_999, 50},
		{100_000, -1},
		{100_000, 1},
		{200_000, 10},
		{4096, 4096},
		{33_333, 1 << 62},
	} {
		start := min(c.offset, int64(len(content)))
		end := int64(len(content))
		if c.n >= 0 && c.n < end-start {
			end = start + c.n
		}
		if got := get(t, s, "k", c.offset, c.n); !bytes.Equal(got, content[start:end]) {
			t.Errorf("Get(offset %d, n %d) returned %d bytes that differ from the %d at [%d:%d]", c.offset, c.n, len(got), end-start, start, end)
		}
	}
	if r, err := s.Get(t.Context(), "k", -1, 1); err == nil {
		r.Close()
		t.Error("a negative offset was accepted")
	}
}

func unusualKeys(t *testing.T, s blob.Store) {
	long := string(bytes.Repeat([]byte("x"), blob.MaxElement))
	keys := []string{"a", "a/b", "a/b/c", "...", "-", "_", ".hidden", "a.b", "a..b", long, long + "/" + long, "org_01/packs/0.tmp", "tmp", "objects"}
	for _, key := range keys {
		put(t, s, key, []byte(key))
	}
	for _, key := range keys {
		wantContent(t, s, key, []byte(key))
	}
}

func invalidKeys(t *testing.T, s blob.Store) {
	keys := []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", "A", "a b", "a\x00b", "a\nb",
		"ä", "a\\b", "a%2fb", "a~", "a@", "a=", "a?b", "a*b", "c:d",
		string(bytes.Repeat([]byte("x"), blob.MaxElement+1)),
		string(bytes.Repeat([]byte("ab/"), blob.MaxKey/3)) + "abc",
	}
	ctx := t.Context()
	for _, key := range keys {
		if err := s.Put(ctx, key, bytes.NewReader(nil), 0); err == nil {
			t.Errorf("Put(%q) was accepted", key)
		}
		if r, err := s.Get(ctx, key, 0, -1); err == nil {
			r.Close()
			t.Errorf("Get(%q) was accepted", key)
		}
		if _, err := s.Stat(ctx, key); err == nil {
			t.Errorf("Stat(%q) was accepted", key)
		}
		if err := s.Delete(ctx, key); err == nil {
			t.Errorf("Delete(%q) was accepted", key)
		}
	}
	if keys := keysUnder(t, s, ""); len(keys) != 0 {
		t.Errorf("the store lists %q, want nothing", keys)
	}
}

func deleteTwice(t *testing.T, s blob.Store) {
	put(t, s, "a/b", []byte("x"))
	put(t, s, "a/c", []byte("y"))
	for range 2 {
		if err := s.Delete(t.Context(), "a/b"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	if err := s.Delete(t.Context(), "never/was"); err != nil {
		t.Errorf("Delete of a missing object: %v", err)
	}
	wantContent(t, s, "a/c", []byte("y"))
	put(t, s, "a/b", []byte("again"))
	wantContent(t, s, "a/b", []byte("again"))
}

func readerOutlivesDelete(t *testing.T, s blob.Store) {
	content := noise(3, 1<<20)
	put(t, s, "k", content)
	r, err := s.Get(t.Context(), "k", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the open reader returned %d bytes and %v", len(got), err)
	}
}

func cancelled(t *testing.T, s blob.Store) {
	put(t, s, "there", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, "k", bytes.NewReader([]byte("x")), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if r, err := s.Get(ctx, "there", 0, -1); !errors.Is(err, context.Canceled) {
		if err == nil {
			r.Close()
		}
		t.Errorf("Get = %v, want context.Canceled", err)
	}
	if _, err := s.Stat(ctx, "there"); !errors.Is(err, context.Canceled) {
		t.Errorf("Stat = %v, want context.Canceled", err)
	}
	if err := s.Delete(ctx, "there"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete = %v, want context.Canceled", err)
	}
	var listed error
	for _, err := range s.List(ctx, "") {
		listed = err
	}
	if !errors.Is(listed, context.Canceled) {
		t.Errorf("List ended with %v, want context.Canceled", listed)
	}
	if got := keysUnder(t, s, ""); len(got) != 1 || got[0] != "there" {
		t.Errorf("the store lists %q, want only \"there\"", got)
	}
}
